"""What an operator sees of the running attempt, two metres away: a picture, markers in 3D, a few lines of text.

`view` keeps what was heard; `picture` draws it over the camera's picture, `markers` puts it beside the arm, `words`
says it, and `rerun_stream` sends the same to the Rerun viewer. Pure functions of a `ViewState`; nothing here knows ROS.
"""
