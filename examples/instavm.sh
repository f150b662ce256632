#!/bin/sh
# InstaVM's API with nothing but curl: makes a session, runs Python in it, sends it a file, finds it by its metadata,
# and kills it. With a daemon running:
#
#   SANDKEEP_URL=http://127.0.0.1:7700 SANDKEEP_API_KEY=… sh examples/instavm.sh

set -eu
: "${SANDKEEP_URL:=http://127.0.0.1:7700}"

ask() {
  curl -sS --fail-with-body -H "X-API-Key: $SANDKEEP_API_KEY" "$@"
}

# The text of a member of a JSON answer.
member() {
  python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

session=$(ask "$SANDKEEP_URL/v1/sessions/session" --json \
  '{"api_key": "'"$SANDKEEP_API_KEY"'", "vm_lifetime_seconds": 300, "metadata": {"userId": "123", "env": "dev"}}' |
  member session_id)

echo "Python says: $(ask "$SANDKEEP_URL/execute" --json \
  '{"session_id": "'"$session"'", "command": "print(6 * 7)"}' | member stdout)"

echo "hello from outside" | ask "$SANDKEEP_URL/upload" -o /dev/null \
  -F file=@- -F remote_path=/app/hello.txt -F session_id="$session"
echo "the file says: $(ask "$SANDKEEP_URL/execute" --json \
  '{"session_id": "'"$session"'", "language": "bash", "command": "cat /app/hello.txt"}' | member stdout)"

find_it() {
  ask -G "$SANDKEEP_URL/v1/sessions/sandboxes" --data-urlencode 'metadata={"userId":"123"}' -d limit=1 |
    python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["status"])'
}

echo "found by its metadata, it is $(find_it)"
ask "$SANDKEEP_URL/kill" --json '{"session_id": "'"$session"'"}' -o /dev/null
echo "after a kill, it is $(find_it)"
