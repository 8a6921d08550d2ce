# Progress for the shell scripts of this tree; sourced, never run. On a terminal it is one line that
# is redrawn; in a log it is one line per tenth, so that a log stays readable. All of it goes to
# standard error: standard output belongs to what a script answers.

progress_last=-1

# say TEXT: one line that names the step which begins.
say() { printf '==> %s\n' "$*" >&2; }

# fail TEXT [EXIT_CODE]
fail() {
  printf 'error: %s\n' "$1" >&2
  exit "${2:-1}"
}

# progress DONE TOTAL LABEL
progress() {
  local done=$1 total=$2 label=$3 percent bar
  ((total > 0)) || return 0
  percent=$((100 * done / total))
  ((percent <= 100)) || percent=100
  if [[ -t 2 ]]; then
    bar=$(printf '%*s' $((percent * 30 / 100)) '')
    printf '\r    [%-30s] %3d%% %-30.30s' "${bar// /#}" "$percent" "$label" >&2
  elif ((percent / 10 != progress_last / 10 || progress_last < 0)); then
    printf '    %3d%% %s\n' "$percent" "$label" >&2
  fi
  progress_last=$percent
}

# progress_end: leaves the finished bar behind and gets ready for the next one.
progress_end() {
  if [[ -t 2 ]] && ((progress_last >= 0)); then printf '\n' >&2; fi
  progress_last=-1
}

# build FOLDER TARGET...: ninja with its own count of steps as the bar. What a compiler says is
# printed as it is. With JOBS set, so many at once.
build() {
  local folder=$1
  shift
  # pipefail is on in every script here, so the status is ninja's.
  NINJA_STATUS='[%f/%t] ' ninja -C "$folder" ${JOBS:+-j "$JOBS"} "$@" 2>&1 | show_ninja
}

show_ninja() {
  local line
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\  ]]; then
      progress "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" \
        "step ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]}"
    elif [[ $line != "ninja: Entering"* && $line != "ninja: no work"* ]]; then
      printf '%s\n' "$line" >&2
    fi
  done
  progress_end
}

# configure FOLDER CMAKE_ARGUMENT...: quiet unless it fails. A folder that was configured is left
# to ninja, which runs cmake again by itself when a list of sources has changed.
configure() {
  local folder=$1
  shift
  [[ ! -f $folder/build.ninja ]] || return 0
  mkdir -p "$folder"
  if ! cmake -B "$folder" "$@" >"$folder/configure.log" 2>&1; then
    cat "$folder/configure.log" >&2
    rm -f "$folder/CMakeCache.txt"
    return 1
  fi
}
