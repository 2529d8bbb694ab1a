// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderTestSupport
import LarderTesting
import Testing

/// A scenario with a fault at each of its system calls.
struct SystemCallSweep {
  let scenario: Scenario
  let sites: [SystemCallSite]

  /// Runs the scenario once to see which calls it makes.
  init(_ scenario: Scenario, _ arena: CrashHarness) throws {
    self.scenario = scenario
    sites = try arena.sites(of: scenario)
  }

  /// Injects the faults; returns how often, and how often the call did not occur again in five runs.
  ///
  /// The calls depend a little on chance: on the process that acquires the open lock first, and on
  /// whether a thread is started in time.
  static func run(
    _ blows: [(scenario: Scenario, blow: CrashHarness.InjectedFault)], in arena: CrashHarness
  ) -> (struck: Int, missed: Int) {
    var (struck, missed) = (0, 0)
    for (scenario, blow) in blows {
      do {
        var hasFallen = try arena.strike(scenario, blow)
        for _ in 0..<4 where blow.isLethal && !hasFallen {
          hasFallen = try arena.strike(scenario, blow)
        }
        if blow.isLethal, !hasFallen { missed += 1 } else { struck += 1 }
      } catch {
        struck += 1
        Issue.record(error)
      }
    }
    return (struck, missed)
  }
}

extension Crashes {
  @Test(
    .enabled(if: Strace.isAvailable, needsStrace), .timeLimit(.minutes(60)),
    arguments: Share.current.arguments(of: Scenario.all))
  func `A process killed at any system call takes nothing acknowledged with it`(
    scenario: Scenario
  ) throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let start = ContinuousClock.now
    let arena = try CrashHarness()
    let sweep = try SystemCallSweep(scenario, arena)
    let sites = Sweep.thin(sweep.sites, to: 10, using: &random)
    let blows = sites.map { site in
      (
        scenario,
        CrashHarness.InjectedFault.call(
          name: site.name, number: site.number, tampering: "signal=SIGKILL")
      )
    }
    let (struck, missed) = SystemCallSweep.run(blows, in: arena)
    #expect(sweep.sites.count > 15, "Almost nothing was recorded.")
    #expect(missed * 5 <= blows.count, "\(missed) of \(blows.count) calls did not come again.")
    Sweep.report(
      "\(scenario): \(struck) kills at \(sweep.sites.count) system calls, \(missed) missed, "
        + start.age)
  }

  /// The errors a call may give, as far as they can be met.
  static func errors(_ site: SystemCallSite) -> [String] {
    if site.isForeign { return [] }
    // LMDB aborts after a short write; no other code could distinguish an injected one from a
    // faulty disk.
    let short = site.path.hasSuffix("/data.mdb") ? ["retval=10"] : []
    return switch site.name {
    case "openat": ["error=EMFILE", "error=ENFILE", "error=EINTR", "error=EIO"]
    case "mkdir", "rename": ["error=ENOSPC", "error=EIO"]
    case "pwrite64", "writev", "pwritev":
      ["error=ENOSPC", "error=EIO", "error=EDQUOT", "error=EINTR"] + short
    case "fsync", "fdatasync": ["error=EIO", "error=ENOSPC"]
    case "ftruncate", "fallocate": ["error=ENOSPC", "error=EINTR", "error=EIO"]
    case "flock": ["error=EINTR", "error=ENOLCK"]
    case "fcntl": ["error=EINTR", "error=ENOLCK", "error=EMFILE"]
    case "mmap": site.path.isEmpty ? [] : ["error=ENOMEM"]
    default: []
    }
  }

  @Test(
    .enabled(if: Strace.isAvailable, needsStrace), .timeLimit(.minutes(60)),
    arguments: Share.current.arguments(of: Scenario.all))
  func `A system call that fails gives a typed error and leaves a valid store`(
    scenario: Scenario
  ) throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let start = ContinuousClock.now
    let arena = try CrashHarness()
    let sweep = try SystemCallSweep(scenario, arena)
    let all = sweep.sites.flatMap { site in
      Self.errors(site).map { error in
        (
          scenario,
          CrashHarness.InjectedFault.call(name: site.name, number: site.number, tampering: error)
        )
      }
    }
    let blows = Sweep.thin(all, to: 10, using: &random)
    let (struck, _) = SystemCallSweep.run(blows, in: arena)
    Sweep.report("\(scenario): \(struck) errors of \(all.count), \(start.age)")
  }

  /// A process whose threads' first `openat` each fails lives for more than a second.
  @Test(.enabled(if: Strace.isAvailable, needsStrace), .timeLimit(.minutes(60)))
  func `A process that outlives a failed open is ended by libdispatch only`() throws {
    let scratch = try Scratch()
    let log = scratch.appending("calls")
    let files = scratch.appending("log")
    try TestFiles.makeDirectory(files)
    let peer = try Strace.shared.start(
      call: "openat", inject: "openat:error=ENFILE:when=1", log: log, environment: [:])
    #expect(try peer.ask("open \(scratch.appending("store"))") == "opened 1")
    // The first open of each thread of Swift's pool fails: in the store, which is an error, or in
    // libdispatch, now or within a second.
    try peer.send("compute 20 new \(files)")
    if let answer = try? peer.nextLine() {
      #expect(answer.hasPrefix("computed ") || answer.hasPrefix("error "))
    }
    // Its input stays open: it exits without a command or not at all.
    guard let status = try? peer.wait(deadline: .seconds(5)) else { return peer.kill() }
    #expect(status == .signalled(SIGILL))
    #expect(StraceLog.hasStruckDispatch(StraceLog.parse(try TestFiles.contents(of: log))))
  }
}
