"""The table of contents: what plain `fab` offers. Each task hands on to one room of local/."""

from functools import partial
from typing import TYPE_CHECKING

from invoke import Collection, task

from local.demo import show
from local.steps import OnHosts, OnLaptop, OnTargets
from local.tasks import gate, laptop
from local.tasks import run as job

if TYPE_CHECKING:
    from local.screen import Screen
    from local.session import Session
    from local.steps import Chosen

on_hosts = partial(task, klass=OnHosts)
on_targets = partial(task, klass=OnTargets)
on_laptop = partial(task, klass=OnLaptop)


@on_hosts(gather=gate.show_hosts, needs_job=False, brief=True)
def hosts(session: "Session"):
    """Show who is reachable, with which GPUs, packages and runs."""
    return gate.look(session)


@on_hosts(foresee=gate.foresee_report, gather=gate.write_report, iterable=["without"])
def preflight(session: "Session", until=None, fresh=False, report=None, no_patches=False, without=None):
    """Prove that the job will run; start nothing."""
    del report  # the gathering of all hosts writes it
    return gate.preflight(session, until=until, fresh=fresh, no_patches=no_patches, without=without)


@on_hosts()
def extract(session: "Session", detach=False, patience=None):
    """Start the job (or attach), follow to the end, verify."""
    return job.extract(session, detach=detach, patience=patience)


@on_hosts(gather=job.show_status, needs_job=False, brief=True)
def status(session: "Session", run=None, json=False):
    """Show how the latest run on each host stands."""
    del json  # the gathering of all hosts writes it
    return job.status(session, run=run)


@on_hosts(needs_job=False, brief=True)
def logs(session: "Session", run=None, follow=False, patience=None):
    """Write a run's log on standard output."""
    return job.logs(session, run=run, following=follow, patience=patience)


@on_hosts(needs_job=False, brief=True)
def stop(session: "Session", run=None):
    """Stop a run with every process that it started."""
    return job.stop(session, run=run)


@on_hosts(brief=True)
def verify(session: "Session"):
    """Hold every output file against dataset and manifest."""
    return job.verify(session)


@on_hosts(gather=job.show_runs, needs_job=False, brief=True)
def runs(session: "Session"):
    """List the runs on each host."""
    return job.list_runs(session)


@on_hosts(gather=gate.show_patches, needs_job=False, brief=True)
def patches(session: "Session", json=False):
    """Show the patch series, and its state on each host."""
    del json  # the gathering of all hosts writes it
    return gate.states(session)


@on_targets(iterable=["without"])
def check(chosen: "Chosen", all=False, suggest=None, watch=False, without=None, no_patches=False):  # noqa: A002
    """The static level alone, from kept sources: no connection."""
    laptop.check(chosen, everything=all, suggest=suggest, watch=watch, without=without, no_patches=no_patches)


@on_targets()
def matrix(chosen: "Chosen", package="vllm", releases=None):
    """Which releases of a package the job's code and patches fit."""
    laptop.matrix(chosen, package=package, releases=releases)


@on_laptop(name="run")
def demo(screen: "Screen", svg=None, fresh=False):
    """The whole job on a loopback host, from gate to verify."""
    show.demo(screen, svg=svg, fresh=fresh)


@on_laptop()
def up(screen: "Screen", embedded=False):
    """Start the loopback host of inventories/demo.toml."""
    show.up(screen, embedded=embedded)


@on_laptop()
def down(screen: "Screen"):
    """End the loopback host."""
    show.down(screen)


namespace = Collection(hosts, preflight, extract, status, logs, stop, verify, runs, patches, check, matrix)
demos = Collection("demo", up, down)
demos.add_task(demo, default=True)
namespace.add_collection(demos)
