# A settled cluster costs nothing: no request of the operator beyond its watches and its Lease. QUIET is how long it is
# watched, in seconds.
own_namespace e2e-settled
sed -e 's/name: demo$/name: calm/' -e 's/replicas: 2$/replicas: 1/' "$REPOSITORY/examples/raycluster.yaml" | kubectl -n "$NS" apply -f - >/dev/null
ready calm
began=$(now)
sleep "${QUIET:-20}"
all=$(requests "$OPERATOR_USER" "$began" | sort | uniq -c)
has leases <<<"$all" || fail "the audit log shows no renewal of the Lease: is it read right? $all"
others=$(grep -v -e ' watch ' -e ' leases ' <<<"$all" || true)
[ -z "$others" ] || fail "requests in ${QUIET:-20} settled seconds: $others"
say "in ${QUIET:-20} settled seconds: only"
printf '%s\n' "$all" | sed 's/^/      /'
