"""The programs that tiers are made of, by the names under which they are installed."""

LMCACHE = "lmcache"
REDIS = "redis-server"
MOONCAKE_MASTER = "mooncake_master"
