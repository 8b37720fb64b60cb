"""The application for ``serve run`` and for Serve's config files."""

# No annotations from the future: Ray reads the class of the argument.

from ray import serve
from ray.serve import Application
from ray.serve.config import RequestRouterConfig

from guided.ray.args import ReplicaArgs
from guided.ray.ingress import Ingress
from guided.ray.replica import Replica

__all__ = ["app"]

#: Ray's router that keeps a session on one replica, and goes to the next one where that is full.
_ROUTER = RequestRouterConfig(
    request_router_class="ray.serve.experimental.consistent_hash_router.ConsistentHashRouter",
    request_router_kwargs={"num_fallback_replicas": 1_000},  # all: requests that begin alike may be all there are
)


def app(args: ReplicaArgs) -> Application:
    """Return the ingress and the replicas of a model."""
    settings = args.settings
    scaling = None
    if args.max_replicas is not None:
        scaling = {"min_replicas": args.replicas, "max_replicas": args.max_replicas}
        scaling["target_ongoing_requests"] = settings.max_rows
    replicas = serve.deployment(
        Replica,
        num_replicas=args.replicas if scaling is None else None,
        autoscaling_config=scaling,
        ray_actor_options={"num_cpus": args.cpus, "num_gpus": args.gpus},
        max_ongoing_requests=2 * settings.max_rows,  # plans are made while others are written
        max_queued_requests=settings.max_waiting * (args.max_replicas or args.replicas),
        graceful_shutdown_timeout_s=settings.drain_s,
        health_check_period_s=2,
        request_router_config=_ROUTER,
    )
    ingress = serve.deployment(
        Ingress,
        num_replicas=args.ingresses,
        ray_actor_options={"num_cpus": 0},
        max_ongoing_requests=10_000,  # they wait for a replica there
        graceful_shutdown_timeout_s=settings.drain_s + 10,  # it outlives the replicas whose answers it hands on
    )
    return ingress.bind(replicas.bind(args), args)
