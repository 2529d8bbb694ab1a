// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderTestSupport
import LarderTesting

// STRACE AS A TEST TOOL
//
// strace stops a process at each system call that it is configured to watch. It has two uses:
//
//   a scalpel   `inject=pwrite64:signal=SIGKILL:when=7` kills at the seventh call, before it is
//               done; `error=ENOSPC` answers it with an error; `retval=10` with a short count.
//               Calls are counted by name and by thread, from the start of the program.
//   a recorder  every call with all the bytes it wrote, which a power cut is played from.
//
// Neither needs a separate build. Without strace, or where the kernel forbids tracing (in many
// containers), the tests are skipped with that reason.

/// The command that runs a process under strace, if that is possible.
struct Strace: Sendable {
  let path: String
  private let usesFilter: Bool

  /// The reason why there are no tests with strace, or nil.
  static let missing: String? = {
    switch probe {
    case .success: nil
    case .failure(let reason): reason.description
    }
  }()

  static var isAvailable: Bool { missing == nil }

  /// The one to use in tests that run only where there is one.
  static var shared: Strace { get throws { try probe.get() } }

  struct Missing: Error, CustomStringConvertible { let description: String }

  private static let probe: Result<Strace, Missing> = {
    let places = ["/usr/bin/strace", "/usr/local/bin/strace", "/bin/strace"]
    guard PreloadShim.isAvailable else {
      return .failure(Missing(description: "Other boots: \(PreloadShim.reason)."))
    }
    guard let path = places.first(where: { TestFiles.exists($0) }) else {
      return .failure(
        Missing(description: "There is no strace. On Debian: apt-get install strace."))
    }
    // Injection is what is needed; a process that may be traced may be tampered with.
    var complaint = ""
    for filter in [true, false] {
      let strace = Strace(path: path, usesFilter: filter)
      let arguments = strace.arguments(
        ["-o", "/dev/null"], calls: ["openat"], inject: "openat:signal=SIGKILL:when=1")
      guard let outcome = try? ChildProcess.run(path, arguments + ["/bin/true"]) else { continue }
      if outcome.status == .signalled(SIGKILL) { return .success(strace) }
      complaint = outcome.standardError
    }
    return .failure(Missing(description: "strace cannot trace here: \(complaint)"))
  }()

  private func arguments(_ options: [String], calls: [String], inject: String?) -> [String] {
    ["-f", "-qq"] + (usesFilter ? ["--seccomp-bpf"] : []) + options
      + ["-e", "trace=\(calls.joined(separator: ","))"]
      + (inject.map { ["-e", "inject=\($0)"] } ?? [])
  }

  /// Starts the peer with one call tampered with, and its calls of that name written to a file.
  func start(
    call: String, inject: String, log: String, environment: [String: String]
  ) throws -> ChildProcess {
    let options = arguments(["-o", log, "-s", "300"], calls: [call], inject: inject)
    return try ChildProcess(
      path, options + [TestExecutable.peer.path], environment: environment,
      standardError: .captured)
  }

  /// Starts the peer, or another program, with its calls and those of its children written to a file.
  func start(
    _ program: [String] = [], recording calls: [String], to log: String,
    withData: Bool, environment: [String: String]
  ) throws -> ChildProcess {
    let options = ["-o", log, "-y"] + (withData ? ["-xx", "-s", "2000000"] : ["-s", "300"])
    return try ChildProcess(
      path,
      try arguments(options, calls: calls, inject: nil)
        + (program.isEmpty ? [TestExecutable.peer.path] : program),
      environment: environment, standardError: .captured)
  }
}
