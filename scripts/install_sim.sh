#!/usr/bin/env bash
# Installs the extra [sim] (the simulated table) into a virtual environment and checks that pictures can be drawn.
#
#     scripts/install_sim.sh [VENV]        default: .venv
#
# robosuite goes in without its dependencies: it asks for numpy < 2 only for a part that is not used here.
# robosuite_models adds the arm ARX5. The environment gets numpy >= 2; where ROS 2 is sourced an older one may hide it.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="${1:-$root/.venv}"
python="$venv/bin/python"
robosuite="robosuite==1.5.2"
models="robosuite_models==1.0.0"

if [[ ! -x "$python" ]]; then
    echo "install_sim: no Python in $venv; make the environment first (make setup) or name another one" >&2
    exit 2
fi

# A sourced ROS 2 or a virtual environment with system packages can put another numpy (Ubuntu 24.04: 1.26) before ours.
seen_numpy() {
    "$python" -c 'import sys, numpy; print(numpy.__version__, numpy.__file__, numpy.__file__.startswith(sys.prefix))' \
        2>/dev/null || true
}
read -r version where own <<<"$(seen_numpy)" || true
if [[ "${own:-True}" == False ]]; then
    echo "install_sim: numpy $version from outside $venv is visible ($where);" >&2
    echo "    the simulation gets its own numpy >= 2 in $venv" >&2
fi

# With MuJoCo 3.9 the gripper's linkage comes apart and nothing can be grasped, without any error.
# numpy and OpenCV stay within the bounds that the project itself has.
"$python" -m pip install --quiet --disable-pip-version-check \
    "mujoco==3.3.7" "numba>=0.61" "qpsolvers>=4.7" "scipy>=1.15" "numpy>=2.0,<2.3" \
    "opencv-python-headless>=4.11,<4.13" "pyarrow>=18" termcolor tqdm Pillow
"$python" -m pip install --quiet --disable-pip-version-check --no-deps "$robosuite" "$models"

read -r version where own <<<"$(seen_numpy)" || true
if [[ "${own:-False}" == False ]]; then
    echo "install_sim: $python still imports numpy ${version:-?} from ${where:-nowhere} instead of its own:" >&2
    echo "    PYTHONPATH names the system's packages first, as after sourcing ROS 2. Run this in a shell without ROS;" >&2
    echo "    start the simulation inside ROS through scripts/ros_run, which puts the environment's packages first." >&2
    exit 1
fi

# Debian and Ubuntu package of each library that off-screen rendering loads.
missing=()
for pair in libEGL.so.1:libegl1 libEGL_mesa.so.0:libegl-mesa0 libGL.so.1:libgl1; do
    ldconfig -p | grep -q "${pair%%:*}" || missing+=("${pair##*:}")
done
if ! compgen -G "/usr/lib/*/dri/swrast_dri.so" >/dev/null && ! ldconfig -p | grep -q libgallium; then
    missing+=(libgl1-mesa-dri)
fi
if ((${#missing[@]})); then
    echo "install_sim: off-screen rendering needs more packages. Install them and run this again:" >&2
    echo "    sudo apt-get install ${missing[*]}" >&2
    exit 1
fi

# A start that fails can give an empty picture without an error: look at one.
MUJOCO_GL="${MUJOCO_GL:-egl}" PYOPENGL_PLATFORM="${MUJOCO_GL:-egl}" PYTHONPATH="$root/src${PYTHONPATH:+:$PYTHONPATH}" \
    "$python" - <<'EOF'
from rollout_monitor.sim.tabletop.plans import plan_takes
from rollout_monitor.sim.tabletop.takes import CameraFrame, LiveTake

(spec,) = plan_takes("test", 1, task="lift:red", arm="ur5e")
frame = next(sample for sample in LiveTake(spec).stream() if isinstance(sample, CameraFrame))
print(f"install_sim: the table is set; first picture: mean {frame.rgb.mean():.0f}, deviation {frame.rgb.std():.0f}")
EOF
