"""Thins out the arms' meshes: in pictures of 224 pixels nobody sees it, and software rendering is twice as fast.

Vertices are merged on a grid of 1/26 of the mesh's size (vertex clustering, Rossignac and Borrel 1993); faces that
collapse go. Collision shapes are convex hulls and hardly change.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import numpy.typing as npt

MANY_FACES = 600
CELLS = 26

FloatArray = npt.NDArray[np.float64]


def thin_out(mujoco: Any, root: ET.Element) -> str:
    """The document's text with every large mesh replaced by a coarser one, given inline."""
    model = mujoco.MjModel.from_xml_string(ET.tostring(root, encoding="unicode"))
    meshes = {model.mesh(i).name: i for i in range(model.nmesh)}
    for element in root.iter("mesh"):
        number = meshes.get(element.get("name", ""))
        if number is None or "file" not in element.attrib or model.mesh_facenum[number] < MANY_FACES:
            continue
        vertices, faces = _cluster(*_raw(mujoco, model, number))
        if len(faces) < 4:
            continue
        for key in ("file", "scale", "refpos", "refquat"):
            element.attrib.pop(key, None)
        element.set("vertex", " ".join(f"{v:.5g}" for v in vertices.ravel()))
        element.set("face", " ".join(map(str, faces.ravel())))
    return ET.tostring(root, encoding="unicode")


def _raw(mujoco: Any, model: Any, number: int) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Vertices and faces in the file's own frame: the compiler has moved them to the mesh's centre of mass."""
    begin, count = model.mesh_vertadr[number], model.mesh_vertnum[number]
    vertices = model.mesh_vert[begin : begin + count].astype(np.float64)
    begin, count = model.mesh_faceadr[number], model.mesh_facenum[number]
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, model.mesh_quat[number])
    return vertices @ matrix.reshape(3, 3).T + model.mesh_pos[number], model.mesh_face[begin : begin + count].astype(
        np.int64
    )


def _cluster(vertices: FloatArray, faces: npt.NDArray[np.int64]) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    low = vertices.min(axis=0)
    cell = float((vertices.max(axis=0) - low).max()) / CELLS
    keys = np.floor((vertices - low) / cell).astype(np.int64)
    _, label = np.unique(keys, axis=0, return_inverse=True)
    label = label.ravel()
    counts = np.bincount(label).astype(np.float64)
    merged = np.column_stack([np.bincount(label, weights=vertices[:, axis]) / counts for axis in range(3)])
    thin = label[faces]
    proper = (thin[:, 0] != thin[:, 1]) & (thin[:, 1] != thin[:, 2]) & (thin[:, 0] != thin[:, 2])
    return merged, np.unique(thin[proper], axis=0)
