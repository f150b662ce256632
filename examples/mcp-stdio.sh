#!/bin/sh
# Calls a tool like an MCP client that starts a program: the inspector starts `sandkeep mcp`, which calls the daemon.
#
#   sh examples/mcp-stdio.sh [tool] [--url URL] [--data-dir DIRECTORY]

tool=${1:-list_sandboxes}
[ $# -gt 0 ] && shift
sandkeep=$(dirname "$0")/../bin/sandkeep
exec npx @modelcontextprotocol/inspector --cli --method tools/call --tool-name "$tool" -- "$sandkeep" mcp "$@"
