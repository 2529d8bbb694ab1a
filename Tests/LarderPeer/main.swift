// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// THE OTHER PROCESSES OF THE TESTS
//
//   LarderPeer              reads commands, one a line, and answers each with one line (`numbers` with one a
//                           write). `Peer` has the list. It ends with its parent.
//   LarderPeer stress ...   the randomised crash tester, which scripts/stress runs (trait Tools)
//   LarderPeer hosts ...    several hosts with one Redis server, for scripts/demo-hosts, scripts/bench hosts
//                           and the tests of LarderRedis (traits Tools and Redis)

import Dispatch
import LarderTesting

#if Tools
import ArgumentParser
#endif

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

let arguments = Array(CommandLine.arguments.dropFirst(2))
switch CommandLine.arguments.dropFirst().first {
case nil:
  let peer = Peer()
  while let line = ParentProcess.nextLine(), peer.obey(line) {}
#if Tools
case "stress": runToEnd { await StressTool.main(arguments) }
#endif
#if Tools && Redis
case "hosts": runToEnd { await HostsTool.main(arguments) }
#endif
case let mode?:
  ParentProcess.send("this build has no mode \(mode); see --traits in CONTRIBUTING.md")
  exit(64)
}

/// Runs an asynchronous program while the main thread waits: top-level `await` would make the peer
/// asynchronous as well, whose commands have to run outside of every task.
func runToEnd(_ program: @escaping @Sendable () async -> Void) {
  let end = DispatchSemaphore(value: 0)
  Task.detached {
    await program()
    end.signal()
  }
  end.wait()
}
