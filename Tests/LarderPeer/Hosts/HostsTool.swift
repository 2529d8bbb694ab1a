// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools && Redis
import ArgumentParser

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

// THE TOOL FOR SEVERAL HOSTS
//
// Each host of a run is a store with several processes. `demo` starts hosts in network namespaces of their
// own, disturbs them and prints what they have read; `bench` measures; `worker` is one process of either.

struct HostsTool: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "hosts",
    abstract: "Runs several hosts with one Redis server.",
    subcommands: [HostDemo.self, HostBench.self, HostWorker.self], defaultSubcommand: HostDemo.self)
}

enum StandardOutput {
  /// Writes what was printed, also to a pipe.
  static func flush() { fflush(nil) }
}
#endif
