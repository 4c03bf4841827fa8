"""The table of contents: what plain `fab` offers. Each task hands on to one room of local/."""

from functools import partial
from typing import TYPE_CHECKING

from invoke import Collection, task

from local import early
from local.later import Door
from local.steps import OnAll, OnHosts, OnLaptop, OnTargets
from local.tasks.named import OnRuns

if TYPE_CHECKING:
    from local.demo import show
    from local.screen import Screen
    from local.session import Session
    from local.steps import Chosen
    from local.tasks import extract as extracting
    from local.tasks import fetch as fetching
    from local.tasks import gate, laptop, watch
    from local.tasks import report as telling
    from local.tasks import run as job
    from local.tasks import verify as verifying
else:  # a room is read when one of its tasks is called: no task waits for the others'
    show, gate, laptop, job, fetching, telling, extracting, verifying, watch, past, cleaning = map(
        Door,
        (
            "local.demo.show", "local.tasks.gate", "local.tasks.laptop", "local.tasks.run", "local.tasks.fetch",
            "local.tasks.report", "local.tasks.extract", "local.tasks.verify", "local.tasks.watch", "local.tasks.past",
            "local.tasks.cleaning",
        ),
    )  # fmt: skip

early.leave_quietly()
early.tell_mistakes()
early.collect_seldom()

on_hosts = partial(task, klass=OnHosts)
on_runs = partial(task, klass=OnRuns)
on_targets = partial(task, klass=OnTargets)
on_all = partial(task, klass=OnAll)
on_laptop = partial(task, klass=OnLaptop)


@on_hosts(gather=gate.show_hosts, needs_job=False, brief=True)
def hosts(session: "Session"):
    """Show who is reachable, with which GPUs, packages and runs."""
    return gate.look(session)


@on_hosts(foresee=gate.foresee, gather=gate.write_report, iterable=["without"])
def preflight(session: "Session", until=None, fresh=False, report=None, no_patches=False, without=None):
    """Prove that the job will run; start nothing."""
    del report  # the gathering of all hosts writes it
    return gate.preflight(session, until=until, fresh=fresh, no_patches=no_patches, without=without)


@on_hosts(foresee=extracting.foresee, gather=extracting.show, meets=True)
def extract(session: "Session", detach=False, patience=None, dry_run=False, wait=None, json=False):
    """Start the job (or attach), follow to the end, verify; several hosts share the dataset."""
    del json  # the gathering of all hosts writes it
    return extracting.extract(session, detach=detach, patience=patience, dry_run=dry_run, wait=wait)


@on_hosts(foresee=job.foresee, gather=job.show_status, needs_job=False, brief=True)
def status(session: "Session", run=None, json=False):
    """Show how the latest run on each host stands."""
    del json  # the gathering of all hosts writes it
    return job.status(session, run=run)


@on_hosts(foresee=job.foresee, needs_job=False, brief=True)
def logs(session: "Session", run=None, follow=False, patience=None):
    """Write a run's log on standard output."""
    return job.logs(session, run=run, following=follow, patience=patience)


@on_hosts(foresee=job.foresee, needs_job=False, brief=True)
def stop(session: "Session", run=None):
    """Stop a run with every process that it started."""
    return job.stop(session, run=run)


@on_hosts(foresee=verifying.foresee, gather=verifying.show, brief=True)
def verify(session: "Session", json=False):
    """Hold every output file against dataset and manifest; several hosts give one answer."""
    return verifying.verify(session, json=json)


@on_hosts(
    foresee=fetching.foresee, gather=fetching.finish, needs_job=False, brief=True,
    help={"patience": "How long to wait for a host that is lost, as 90, 10m or 2h (default: 10m); then exit code 75."},
)  # fmt: skip
def fetch(session: "Session", samples=False, to=None, run=None, indices=None, parallel="4", patience=None, json=False):
    """Bring manifests, and samples on request, to this laptop."""
    del samples, indices, parallel, patience, json  # all hosts together fetch the samples
    return fetching.collect(session, run=run, to=to)


@on_hosts(gather=past.show, needs_job=False, brief=True)
def runs(session: "Session", json=False):
    """List the runs of all hosts, newest first."""
    del json  # the gathering of all hosts writes it
    return past.collect(session)


@on_runs(foresee=telling.foresee, gather=telling.write, needs_job=False, brief=True)
def report(session: "Session", run=None, html=None, markdown=None):
    """Write a page about a run: `fab report`, `fab report RUN`."""
    del html, markdown  # the gathering of all hosts writes them
    return telling.tell(session, run=run)


@on_hosts(foresee=cleaning.foresee, gather=cleaning.show, needs_job=False, brief=True)
def clean(session: "Session", keep="5", yes=False, laptop=False):
    """Show what nobody needs any more; remove it with --yes."""
    del laptop  # the gathering of all hosts looks at the laptop
    return cleaning.collect(session, keep=keep, yes=yes)


@on_hosts(gather=gate.show_patches, needs_job=False, brief=True)
def patches(session: "Session", json=False):
    """Show the patch series, and its state on each host."""
    del json  # the gathering of all hosts writes it
    return gate.states(session)


@on_all()
def monitor(chosen: "Chosen", run=None, interval="5s", once=False, json=False, log=None, until_done=False):
    """All hosts on one screen, live: phase, speed, GPUs, disk, cost, log."""
    return watch.monitor(chosen, run=run, interval=interval, once=once, json=json, log=log, until_done=until_done)


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


namespace = Collection(
    hosts, preflight, extract, status, logs, stop, verify, fetch, runs, report, clean, monitor, patches, check, matrix
)
demos = Collection("demo", up, down)
demos.add_task(demo, default=True)
namespace.add_collection(demos)
