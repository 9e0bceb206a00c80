# Runs one private Postgres in the folder $2 with the binaries of $1. Reads one command a line on its standard input and
# answers each with a line `ok` or `failed`. When the input ends, whatever ended its writer, it stops the server and removes the folder.
trap '' INT TERM HUP PIPE
bin=$1 dir=$2 data=$2/data log=$2/log
answer() { if "$@" >>"$log" 2>&1 </dev/null; then echo ok; else echo failed; fi; }
while read -r command; do
  case $command in
    init) answer "$bin/initdb" -D "$data" -U alertstream -A trust -E UTF8 --locale=C -N && cat "$dir/settings" >>"$data/postgresql.conf" ;;
    start) answer "$bin/pg_ctl" -D "$data" -l "$log" -t 120 -w start ;;
    fast | immediate) answer "$bin/pg_ctl" -D "$data" -m "$command" -t 120 -w stop ;;
  esac
done
"$bin/pg_ctl" -D "$data" -m immediate -t 60 -w stop >>"$log" 2>&1 </dev/null
rm -rf "$dir"
