"""Joint logs in CSV and the `kinematics` command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from rollout_monitor.cli import kinematics
from rollout_monitor.errors import InputError
from rollout_monitor.motion import MotionSettings, figures
from rollout_monitor.motion.csv import read_joints, to_grid

ROWS = np.stack([np.sin(np.arange(90) / 10.0), np.arange(90) * 0.01], axis=1)


def write(folder: Path, text: str, name: str = "log.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def table(header: list[str], rows: np.ndarray, sep: str = ",", end: str = "\n") -> str:
    return end.join([sep.join(header), *(sep.join(repr(float(x)) for x in row) for row in rows)]) + end


def run(*arguments: str) -> dict[str, object]:
    app = typer.Typer()
    kinematics.register(app)
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return json.loads(result.output) if "--json" in arguments else {"text": result.output}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\n\r\n"])
@pytest.mark.parametrize("sep", [",", ";", "\t", " "])
def test_every_line_end_and_separator(tmp_path, end, sep) -> None:
    log = read_joints(write(tmp_path, table(["shoulder", "elbow"], ROWS, sep, end)))
    assert log.joint_names == ["shoulder", "elbow"]
    assert np.array_equal(log.positions, ROWS)
    assert log.stamps_ns is None


def test_a_matrix_without_a_header_has_numbered_joints(tmp_path) -> None:
    log = read_joints(write(tmp_path, "\n".join(f"{a!r},{b!r}" for a, b in ROWS.tolist())))
    assert log.joint_names == ["joint_0", "joint_1"]
    assert np.array_equal(log.positions, ROWS)


def test_rows_without_time_are_the_grid(tmp_path) -> None:
    path = write(tmp_path, table(["shoulder", "elbow"], ROWS))
    found = run(str(path), "--rate", "50", "--json")
    wanted = figures(ROWS, 50.0, ["shoulder", "elbow"]).model_dump(mode="json")
    assert {key: found[key] for key in wanted} == wanted
    assert (found["joint_names"], found["grid_rate_hz"], found["segments"]) == (["shoulder", "elbow"], 50.0, 1)
    assert found["health"] is None
    assert "U_v" in found["i_phys"]


@pytest.mark.parametrize(("name", "scale"), [("t", 1.0), ("Time", 1.0), ("timestamp", 1.0), ("stamp_ns", 1e9)])
def test_rows_with_time_are_brought_to_the_grid(tmp_path, name, scale) -> None:
    since = (np.arange(1000) / 500.0).tolist()
    times = [f"{1_700_000_000_000_000_000 + round(x * scale)}" if scale > 1 else f"{1.7e9 + x:.6f}" for x in since]
    lines = [f"{name},elbow", *(f"{time},{0.4 * x!r}" for time, x in zip(times, since, strict=True))]
    found = run(str(write(tmp_path, "\n".join(lines))), "--json")
    assert found["mu_v_si"] == pytest.approx(0.4, rel=1e-4)
    assert 45 <= found["samples"] <= 52
    assert found["health"]["used"] == 1000
    assert found["health"]["rate_hz"] == pytest.approx(500.0, rel=1e-3)
    assert found["time_column"] == name


def test_holes_in_time_make_segments(tmp_path) -> None:
    t = np.concatenate([np.arange(500), np.arange(1000, 1500)]) / 250.0
    log = read_joints(write(tmp_path, table(["t", "elbow"], np.stack([t, 0.1 * t], axis=1))))
    gridded = to_grid(log, MotionSettings())
    assert len(gridded.segments) == 2
    assert gridded.health.gaps == 1


def test_measured_positions_of_an_rtde_log_are_recognised(tmp_path) -> None:
    header = ["timestamp", *(f"{kind}_{j}" for kind in ("target_q", "actual_q", "actual_qd") for j in range(6))]
    values = np.random.default_rng(0).random((50, 19))
    values[:, 0] = 100.0 + np.arange(50) / 500.0
    log = read_joints(write(tmp_path, table(header, values, sep=" ")))
    assert log.joint_names == [f"actual_q_{j}" for j in range(6)]
    assert np.array_equal(log.positions, values[:, 7:13])
    assert log.time_column == "timestamp"
    assert read_joints(tmp_path / "log.csv", columns=r"^target_q_[01]$").joint_names == ["target_q_0", "target_q_1"]


def test_positions_are_told_from_velocities_and_efforts(tmp_path) -> None:
    header = ["time", "elbow_pos", "elbow_vel", "elbow_effort", "target_elbow_pos"]
    values = np.random.default_rng(0).random((20, 5))
    values[:, 0] = np.arange(20) / 30.0
    assert read_joints(write(tmp_path, table(header, values))).joint_names == ["elbow_pos"]


def test_grippers_are_kept_out(tmp_path) -> None:
    path = write(tmp_path, table(["finger", "elbow"], ROWS))
    found = run(str(path), "--gripper", "finger", "--json")
    assert found["joint_names"] == ["elbow"]
    with pytest.raises(InputError, match="'thumb'"):
        run(str(path), "--gripper", "thumb")
    with pytest.raises(InputError, match="none is left"):
        run(str(path), "--gripper", "finger", "--gripper", "elbow")


def test_the_public_ur3e_log(public_data: Path, tmp_path: Path) -> None:
    """Five runs side by side, of different lengths, with a counter called TimeStamp and rows of commas at the end."""
    path = public_data / "recordings" / "ur3e_csv_cr" / "VELOCITY-PLOT.csv"
    options = ("--time-column", "none", "--rate", "125", "--json")
    found = run(str(path), "--columns", "^V10_", *options)
    assert found["joint_names"] == [f"V10_{j}" for j in range(6)]
    assert found["samples"] == 138
    shorter = run(str(path), "--columns", "^V250_", *options)
    assert shorter["samples"] == 134
    with pytest.raises(InputError, match="line 136, column V250_0: is empty"):
        run(str(path), *options)
    with pytest.raises(InputError, match="TimeStamp steps by 1 s"):
        run(str(path), "--columns", "^V10_")
    text = path.read_bytes().replace(b"\r\n", b"\r")  # as the log was first published: carriage returns alone
    assert b"\n" not in text
    bare = tmp_path / "cr.csv"
    bare.write_bytes(text)
    assert run(str(bare), "--columns", "^V10_", *options) == found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("elbow\n", "no row"),
        ("elbow,wrist\n0.1,0.2\n0.1,x\n", "line 3, column wrist: 'x' is not a number"),
        ("elbow,wrist\n0.1,0.2\n0.1,\n", "line 3, column wrist: is empty"),
        ("elbow,wrist\n0.1,0.2\n0.1\n", "line 3, column wrist: is empty"),
        ("elbow\n0.1\nnan\n", "line 3, column elbow: 'nan' is not finite"),
        ("elbow,elbow\n0.1,0.2\n", "names of their own"),
        ("t\n0.1\n0.2\n", "names of their own"),
        ("stamp_ns,elbow\n0.5,1\n", "line 2, column stamp_ns: '0.5'"),
        ("time,elbow\n1700000000000000000,1\n", "too much for seconds"),
    ],
)
def test_bad_logs_are_errors_that_name_line_and_column(tmp_path, text, says) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=says) as error:
        read_joints(path)
    assert str(path) in str(error.value)


def test_bad_choices_are_errors(tmp_path) -> None:
    path = write(tmp_path, table(["elbow"], ROWS[:, :1]))
    with pytest.raises(InputError, match="no column fits"):
        read_joints(path, columns="wrist")
    with pytest.raises(InputError, match="regular expression"):
        read_joints(path, columns="(")
    with pytest.raises(InputError, match="no column 'x'"):
        read_joints(path, time_column="x")
    with pytest.raises(InputError, match=r"gone\.csv"):
        read_joints(tmp_path / "gone.csv")
    with pytest.raises(InputError, match="grid_rate_hz"):
        run(str(path), "--rate", "0")
    short = write(tmp_path, "t,elbow\n0,1\n0.05,1\n", "short.csv")
    with pytest.raises(InputError, match="too short"):
        run(str(short))


def test_the_table_is_readable(tmp_path) -> None:
    text = run(str(write(tmp_path, table(["shoulder", "elbow"], ROWS))))["text"]
    for word in ("u_v", "sparc", "shoulder", "Kinematic summary"):
        assert word in text
