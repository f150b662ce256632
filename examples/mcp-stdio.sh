#!/bin/sh
# Calls a tool like an MCP client that starts a program: the inspector starts `sandkeep mcp`, which calls the daemon.
#
#   sh examples/mcp-stdio.sh [tool] [--url URL] [--data-dir DIRECTORY]
#
# The inspector needs Node 22.19 or later. The version is the one that our tests use.

tool=${1:-list_sandboxes}
[ $# -gt 0 ] && shift
sandkeep=$(dirname "$0")/../bin/sandkeep
exec npx @modelcontextprotocol/inspector@2.12.0 --cli --method tools/call --tool-name "$tool" -- "$sandkeep" mcp "$@"
