from tests.disk import unflushed  # noqa: F401 - a fixture of all tests here
