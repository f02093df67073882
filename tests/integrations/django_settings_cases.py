"""Cases for the setting `WINDLASS`, in a process of a Django project: prints `ok` if all hold."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, os.getcwd())  # noqa: PTH109

import django
import pytest

django.setup()

from django.core.exceptions import ImproperlyConfigured  # noqa: E402
from django.db import connections  # noqa: E402
from django.test.utils import override_settings  # noqa: E402

from windlass.integrations.django import app  # noqa: E402
from windlass.integrations.django.checks import check_deployment, check_settings, check_store  # noqa: E402
from windlass.integrations.django.settings import app_url, database_url, joined_database  # noqa: E402


def check(windlass: Any) -> str:
    """Return the ids and texts of the checks with a setting."""
    with override_settings(WINDLASS=windlass):
        return "; ".join(f"{each.id} {each.msg}" for each in check_settings())


@contextmanager
def database(**values: Any) -> Any:
    """Change the settings of the default database inside the block."""
    with mock.patch.dict(connections["default"].settings_dict, values):
        yield


def main() -> None:
    assert check({}) == ""
    assert "E001 WINDLASS=7 is not a dict" in check(7)
    assert "E001 WINDLASS has the unknown key 'Url'" in check({"Url": "sqlite:///x.db"})
    assert "E001 WINDLASS['URL']=7 is not a str" in check({"URL": 7})
    assert "E001 WINDLASS['DATABASE']='other' is not an alias" in check({"DATABASE": "other"})
    assert "E001 WINDLASS['MODULES']='tasks' is not a list" in check({"MODULES": "tasks"})
    assert "E002 The store 'mysql://db/shop' has an unknown scheme" in check({"URL": "mysql://db/shop"})
    with mock.patch("windlass.integrations.django.checks.find_spec", return_value=None):
        assert "E003" in check({})
    with mock.patch.object(connections["default"], "Database", mock.Mock(__name__="psycopg2")):
        assert "W004" in check({})
        assert joined_database() is None
    with mock.patch.dict("django.conf.settings.DATABASES", {"default": {"ATOMIC_REQUESTS": True}}):
        assert "I001" in check({})

    with override_settings(WINDLASS={"URL": "sqlite:///x.db"}):
        assert [each.id for each in check_deployment()] == ["windlass.W001"]
        assert (app_url(), app.app_store.own_url, joined_database()) == ("sqlite:///x.db", "sqlite:///x.db", None)
    assert (check_deployment(), check_store(), joined_database()) == ([], [], "default")
    with override_settings(WINDLASS={"URL": "postgresql://nobody@127.0.0.1:1/none"}):
        assert [each.id for each in check_store(databases=["default"])] == ["windlass.E004"]
    with override_settings(WINDLASS={"URL": f"sqlite:///{Path('missing.db').absolute()}"}):
        assert [each.id for each in check_store(databases=["default"])] == ["windlass.W002"]
    with mock.patch.dict(os.environ, {"WINDLASS_URL": "sqlite:///y.db"}):
        assert (app_url(), app.app_store.own_url, joined_database()) == (None, None, None)

    names = {"NAME": "a/b", "USER": "me@x", "PASSWORD": "p:w/@", "HOST": "db", "PORT": "5433"}
    with database(**names, OPTIONS={"sslmode": "require", "pool": True}):
        assert database_url("default") == "postgresql://me%40x:p%3Aw%2F%40@db:5433/a%2Fb?sslmode=require"
    with database(NAME="shop", USER="", PASSWORD="", HOST="/run/pg", PORT="", OPTIONS={}):
        assert database_url("default") == "postgresql:///shop?host=%2Frun%2Fpg"
    with mock.patch.object(connections["default"], "vendor", "sqlite"):
        with database(NAME="/srv/shop/db.sqlite3"):
            assert database_url("default") == "sqlite:////srv/shop/windlass.db"
        with database(NAME="file:memorydb_default?mode=memory&cache=shared"):
            assert database_url("default") == "memory:"
    with (
        mock.patch.object(connections["default"], "vendor", "mysql"),
        pytest.raises(ImproperlyConfigured, match="WINDLASS has no URL"),
    ):
        database_url("default")

    from django.core.management import CommandError, call_command

    with pytest.raises(CommandError, match=r"call_command\(\) cannot run it"):
        call_command("windlass_worker")
    from windlass.integrations.django.backend import WindlassBackend

    with pytest.raises(ImproperlyConfigured, match=r"TASKS\['default'\]\['OPTIONS'\]: Unknown option 'retrys'"):
        WindlassBackend("default", {"OPTIONS": {"retrys": 3}})
    with mock.patch("django.apps.apps.is_installed", return_value=False):
        assert [each.id for each in WindlassBackend("default", {}).check()] == ["windlass.E006"]
    sys.stdout.write("ok\n")


main()
