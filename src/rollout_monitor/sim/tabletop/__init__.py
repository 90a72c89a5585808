"""The simulated table: many tasks, arms, looks and ways to fail, cheap enough for thousands of takes.

Physics is MuJoCo's, the arms and grippers are robosuite's models; everything on the table is made of primitive shapes.
Read it from the bottom up: `catalogue` (what can lie on the table), `goals` (tasks and their true progress),
`phrases`, `arms`, `scene` and `world` (physics and pictures), `looks`, `layouts`, `operator` (the scripted expert),
`takes`, `alternatives`, `files`, `plans`.
"""
