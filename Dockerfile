# rollout-monitor on the official ROS 2 Jazzy image, installed by the same `make setup` as everywhere: the image's ROS 2 is
# sourced, so no wheels are used.
#
#   docker build -t rollout-monitor .
#   docker run --rm --network host --ipc host -v "$PWD/episodes:/episodes" rollout-monitor
#
# --network host: DDS discovery; --ipc host: shared memory with the camera drivers of the host, and more of it than the
# 64 MB that a container has (images larger than that are lost). Give the drivers config/fastdds_shm.xml as well.
FROM ros:jazzy-ros-base-noble

SHELL ["/bin/bash", "-o", "errexit", "-o", "pipefail", "-c"]

# Packages come from the distribution's own archive, which keeps no old versions to pin.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        g++ \
        make \
        python3-colcon-common-extensions \
        python3-dev \
        python3-venv \
        ros-jazzy-common-interfaces \
        ros-jazzy-rmw-fastrtps-cpp \
        ros-jazzy-rosidl-default-generators \
    && rm -rf /var/lib/apt/lists/*

# A user by number: the host may know no such name.
RUN useradd --create-home --uid 10001 monitor \
    && install --directory --owner 10001 --group 10001 /opt/rollout-monitor /episodes

USER 10001:10001
WORKDIR /opt/rollout-monitor
COPY --chown=10001:10001 . .
RUN source /opt/ros/jazzy/setup.bash \
    && PIP_NO_CACHE_DIR=1 make setup PYTHON=/usr/bin/python3

VOLUME /episodes
# The image's entry point sources ROS 2; ros_run adds the workspace and the environment.
ENTRYPOINT ["/ros_entrypoint.sh", "/opt/rollout-monitor/scripts/ros_run"]
CMD ["rollout-monitor", "up", "--episodes", "/episodes"]
