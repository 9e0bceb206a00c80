#!/usr/bin/env bash
# Runs one real Apache Kafka broker (KRaft, one node) from Maven's jars, for tests where no container engine is.
#
#   docker/kafka.sh start     fetch the jars once, format, start, wait until it answers, print the environment
#   docker/kafka.sh env       print the environment of the running broker: eval "$(docker/kafka.sh env)"
#   docker/kafka.sh restart   stop and start again on the same ports with the same data
#   docker/kafka.sh stop      stop it and remove its data; the jars stay in the cache
#
# Two listeners: PLAINTEXT without authorisation in the way, and SASL_PLAINTEXT with SCRAM-SHA-512 whose user has to
# ask the ACLs. Folders: KAFKA_CACHE (jars, default .kafka) and KAFKA_RUN (data, log, pid, default .kafka/run); with
# another KAFKA_RUN a second broker runs beside the first.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${KAFKA_CACHE:-$root/.kafka}
run=${KAFKA_RUN:-$cache/run}
libs=$cache/libs
cluster_id=5L6g3nShT-eMCtK--X86sw
user=alice
password=alice-secret
admin=admin
admin_password=admin-secret

java_flags=(-Xms128m -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -Djava.awt.headless=true
  -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info
  "-Dkafka.logs.dir=$run/data")

fail() { echo "kafka.sh: $*" >&2; exit 1; }

alive() { [ -f "$run/pid" ] && kill -0 "$(cat "$run/pid")" 2>/dev/null; }

# True when something listens on the port of 127.0.0.1.
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

free_port() {
  local port
  for _ in $(seq 200); do
    port=$((20000 + RANDOM % 12000))
    listens "$port" || { echo "$port"; return; }
  done
  fail "no free port found between 20000 and 32000"
}

fetch_jars() {
  [ -f "$libs/.complete" ] && return
  command -v java >/dev/null || fail "java is missing; install a JRE 17 or newer"
  command -v mvn >/dev/null || fail "mvn is missing; install Maven to fetch the broker's jars"
  mkdir -p "$libs"
  mvn -q -B -f "$root/docker/kafka-jars/pom.xml" dependency:copy-dependencies \
    -DincludeScope=runtime "-DoutputDirectory=$libs" >&2 || fail "Maven could not fetch the broker's jars"
  touch "$libs/.complete"
}

write_properties() {
  local plain=$1 sasl=$2 controller=$3
  local scram="org.apache.kafka.common.security.scram.ScramLoginModule required"
  cat >"$run/server.properties" <<P
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:$plain,SASL_PLAINTEXT://127.0.0.1:$sasl,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$plain,SASL_PLAINTEXT://127.0.0.1:$sasl
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.sasl_plaintext.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=$scram;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:$admin
allow.everyone.if.no.acl.found=false
controller.quorum.voters=1@127.0.0.1:$controller
log.dirs=$run/data
num.partitions=4
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
group.consumer.heartbeat.interval.ms=1000
group.consumer.min.heartbeat.interval.ms=500
group.min.session.timeout.ms=1000
message.max.bytes=10485760
replica.fetch.max.bytes=10485760
log.cleaner.enable=false
log.retention.check.interval.ms=500
log.initial.task.delay.ms=500
file.delete.delay.ms=100
num.network.threads=2
num.io.threads=2
background.threads=2
P
  printf '%s\n' "KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:$plain" "KAFKA_SASL_BOOTSTRAP_SERVERS=127.0.0.1:$sasl" \
    "KAFKA_SASL_MECHANISM=SCRAM-SHA-512" "KAFKA_SASL_USERNAME=$user" "KAFKA_SASL_PASSWORD=$password" \
    "KAFKA_SASL_ADMIN_USERNAME=$admin" "KAFKA_SASL_ADMIN_PASSWORD=$admin_password" \
    "KAFKA_SCRIPT=$root/docker/kafka.sh" "KAFKA_CACHE=$cache" "KAFKA_RUN=$run" >"$run/env"
}

format_storage() {
  rm -rf "$run/data"
  java "${java_flags[@]}" -cp "$libs/*" kafka.tools.StorageTool format -t "$cluster_id" -c "$run/server.properties" \
    -S "SCRAM-SHA-512=[name=$user,password=$password]" \
    -S "SCRAM-SHA-512=[name=$admin,password=$admin_password]" >"$run/format.log" 2>&1 || {
    cat "$run/format.log" >&2
    fail "formatting failed"
  }
}

# Starts the JVM and waits for its own word and both sockets; false when it died or did not come up in time.
launch() {
  local plain sasl
  plain=$(sed -n 's/^KAFKA_BOOTSTRAP_SERVERS=.*://p' "$run/env")
  sasl=$(sed -n 's/^KAFKA_SASL_BOOTSTRAP_SERVERS=.*://p' "$run/env")
  setsid java "${java_flags[@]}" -cp "$libs/*" kafka.Kafka "$run/server.properties" \
    >"$run/broker.log" 2>&1 </dev/null &
  echo $! >"$run/pid"
  for _ in $(seq 600); do
    alive || return 1
    if grep -q "Kafka Server started" "$run/broker.log" && listens "$plain" && listens "$sasl"; then return 0; fi
    sleep 0.1
  done
  return 1
}

# Ends the JVM: SIGTERM for a controlled shutdown, SIGKILL after 20 s.
halt() {
  alive || { rm -f "$run/pid"; return 0; }
  local pid
  pid=$(cat "$run/pid")
  kill -TERM "$pid" 2>/dev/null || true
  for _ in $(seq 200); do
    kill -0 "$pid" 2>/dev/null || { rm -f "$run/pid"; return 0; }
    sleep 0.1
  done
  kill -KILL "$pid" 2>/dev/null || true
  rm -f "$run/pid"
}

start() {
  if alive; then cat "$run/env"; return; fi
  fetch_jars
  mkdir -p "$run"
  for _ in 1 2 3; do
    write_properties "$(free_port)" "$(free_port)" "$(free_port)"
    format_storage
    if launch; then cat "$run/env"; return; fi
    halt
  done
  tail -20 "$run/broker.log" >&2
  fail "the broker did not start"
}

case "${1:-}" in
  start) start ;;
  env) alive || fail "no broker runs; start one with: docker/kafka.sh start"; sed "s/^/export /" "$run/env" ;;
  restart)
    [ -f "$run/env" ] || fail "no broker to restart; start one with: docker/kafka.sh start"
    halt
    launch || { tail -20 "$run/broker.log" >&2; fail "the broker did not start again"; } ;;
  stop) halt; rm -rf "$run" ;;
  *) echo "usage: docker/kafka.sh start|env|restart|stop" >&2; exit 2 ;;
esac
