"""The global function that compiled regions call."""

DRIVER_NAME = "vnpu.driver.run"
