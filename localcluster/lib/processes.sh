# shellcheck shell=bash
# Processes that outlive the command: a record of each holds its pid and its start time, so that a pid that the machine
# has given to another process since is never taken for ours.

ENDED=() # pids that were told to end

started_at() { # field 22 of /proc/PID/stat; the name before it may hold spaces
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  stat=${stat##*) }
  # shellcheck disable=SC2086
  set -- $stat
  [ "$1" != Z ] || return 1
  echo "${20}"
}

pid_of() { # pid_of NAME: prints the pid if that very process is alive
  local pid start
  read -r pid start 2>/dev/null <"$STATE/processes/$1" || return 1
  [ "$(started_at "$pid")" = "$start" ] || return 1
  echo "$pid"
}

start() { # start NAME COMMAND...
  local name=$1
  shift
  ! pid_of "$name" >/dev/null || return 0
  mkdir -p "$STATE/processes" "$STATE/logs"
  setsid "$@" >>"$STATE/logs/$name.log" 2>&1 </dev/null 9>&- &
  local pid=$!
  echo "$pid $(started_at "$pid")" >"$STATE/processes/$name"
}

# An API server that is asked to stop waits about a minute for its watches, which is why patience has an end.
stop() { # stop NAME SECONDS
  local pid
  if pid=$(pid_of "$1"); then
    kill "$pid" 2>/dev/null || true
    ENDED+=("$pid")
    if ! wait_until "$2" gone "$1"; then
      kill -9 "$pid" 2>/dev/null || true
      wait_until 5 gone "$1" || warn "$1 (pid $pid) does not end"
    fi
  fi
  rm -f "$STATE/processes/$1"
}

gone() { ! pid_of "$1" >/dev/null; }

ready() { # ready NAME SECONDS COMMAND...: wait for the command to succeed, or say why the process did not get there
  local name=$1 limit=$2
  shift 2
  local end=$((SECONDS + limit))
  until ! gone "$name" && "$@" >/dev/null 2>&1; do
    if gone "$name" || [ "$SECONDS" -ge "$end" ]; then
      tail -n 12 "$STATE/logs/$name.log"
      die "$name is not ready after $limit s or has ended; its log is $STATE/logs/$name.log"
    fi
    sleep 0.1
  done
}
