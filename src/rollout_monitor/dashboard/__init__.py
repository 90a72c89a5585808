"""The live dashboard: what pages show of the robots, who may see it, and the web server; without ROS."""
