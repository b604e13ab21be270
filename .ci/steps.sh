# shellcheck shell=bash
# What .ci/run and .ci/nightly share: running named steps and telling how they went. Sourced, from the repository's root.

export LC_ALL=C.UTF-8 CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-never}" CARGO_INCREMENTAL=0

# Runs the steps that are named, or all. Step NAME is the function step_NAME; every one runs in a shell of its own, ends
# at its first failing command, and does not stop those after it. Prints a table of times and, alone on the last line,
# "N passed, M failed". Returns 1 if a step failed, 2 if there is no such step.
run_steps() { # the script's name, the name of an array of "NAME  what it does", then the script's arguments
    local script=$1 known=() selected=() entry step
    local -n catalogue=$2
    shift 2
    if [[ $* == list ]]; then
        printf '%s\n' "${catalogue[@]}"
        return 0
    fi
    for entry in "${catalogue[@]}"; do
        known+=("${entry%% *}")
    done
    selected=("$@")
    (($# > 0)) || selected=("${known[@]}")
    for step in "${selected[@]}"; do
        if [[ " ${known[*]} " != *" $step "* ]]; then
            echo "no step $step; there are: ${known[*]}" >&2
            return 2
        fi
    done

    local passed=0 failed=() rows=() started status word
    for step in "${selected[@]}"; do
        printf '\n==== %s\n' "$step"
        started=$EPOCHREALTIME
        # In a condition bash would ignore -e inside the step, so its status is taken this way.
        set +e
        (
            set -e
            "step_$step"
        )
        status=$?
        set -e
        if ((status == 0)); then
            word=ok
            passed=$((passed + 1))
        else
            word="FAILED (exit code $status)"
            failed+=("$step")
        fi
        rows+=("$(printf '%-16s %9.1f s  %s' "$step" "$(seconds_since "$started")" "$word")")
    done

    printf '\n==== times\n'
    printf '%s\n' "${rows[@]}"
    ((${#failed[@]} == 0)) || printf 'failed: %s (again: %s %s)\n' "${failed[*]}" "$script" "${failed[*]}"
    printf '%d passed, %d failed\n' "$passed" "${#failed[@]}"
    ((${#failed[@]} == 0))
}

# Installs what a step needs and this machine lacks: by apt, as root or by sudo.
need() { # a program that is in the Debian package of its name
    ! command -v "$1" >/dev/null || return 0
    local root=()
    [[ $(id -u) == 0 ]] || root=(sudo)
    "${root[@]}" apt-get update -qq
    "${root[@]}" apt-get install -y -qq --no-install-recommends "$1"
}

seconds_since() { # an earlier EPOCHREALTIME
    awk -v now="$EPOCHREALTIME" -v start="$1" 'BEGIN { printf "%.1f", now - start }'
}

# Builds the program and holds one suite of demos to their inputs.
check_demo() { # profile, suite
    local target directory=$1
    [[ $1 != dev ]] || directory=debug
    cargo build --profile "$1" --locked --package panetiere-host --bin panetiere
    target=$(cargo metadata --locked --no-deps --format-version 1 |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
    python3 .ci/check_demo.py "$target/$directory/panetiere" "$2"
}
