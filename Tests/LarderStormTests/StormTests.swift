// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting
import Testing

// Random storms and directed scenarios of the coherence protocol. Everything that kills at a named
// point, and every broken rule, needs the trait: `swift test --traits FaultInjection`. Without it
// the processes are killed from outside only.

#if FAULTS
  let hasFaults = true
#else
  let hasFaults = false
#endif

/// Why a test is left out of builds without the trait.
let needsFaults: Comment = "needs swift test --traits FaultInjection"

@Suite(.serialized) struct StormTests {
  struct Outcome {
    var kills = 0
    var counts: [String: UInt64] = [:]
    var endings: [String] = []
    var violations: UInt64 {
      ["stale", "newThenOld", "torn", "lost"].map { counts[$0] ?? 0 }.reduce(0, +)
    }
  }

  /// Runs writers and readers over one store, killing and replacing them, until the time is up or
  /// a violation was found.
  func storm(
    seconds: Int, mutant: String? = nil, faults: String = "", untilReads: UInt64 = 0
  ) throws -> Outcome {
    let seed = Seed.announce("storm")
    var random = seed.generator()
    let directory = try TemporaryDirectory()
    let control = try StormControlFile(path: directory.path + "/control")
    let storm = try PeerExecutable("larder-stress")
    var environment: [String: String] = [:]
    if let mutant { environment["LARDER_MUTANT"] = mutant }
    if !faults.isEmpty { environment["LARDER_FAULTS"] = faults }
    let writers = 2
    func start(_ index: Int) throws -> ChildProcess {
      let arguments =
        index < writers
        ? ["writer", directory.path + "/store", control.path, "\(index)", "\(writers)"]
        : ["reader", directory.path + "/store", control.path]
      return try storm.start(arguments, environment: environment)
    }
    var children = try (0..<4).map(start)
    var outcome = Outcome()
    let end = ContinuousClock.now + .seconds(seconds)
    while ContinuousClock.now < end {
      // Whoever ended is replaced; now and then somebody is made to end.
      let victim = Int.random(in: 0..<children.count, using: &random)
      if (try? children[victim].wait(
        deadline: .milliseconds(Int.random(in: 5...60, using: &random)))) == nil
      {
        if Int.random(in: 0..<3, using: &random) > 0 { continue }
        children[victim].kill()
        _ = try children[victim].wait(deadline: .seconds(20))
      }
      if let status = children[victim].exitStatus {
        if case .signalled(let signal) = status, signal == 9 {
          outcome.kills += 1
        } else {
          let lines = (try? children[victim].remainingLines(deadline: .seconds(5))) ?? []
          outcome.endings.append("\(status): \(lines)")
        }
      }
      children[victim] = try start(victim)
      outcome.counts = control.counts
      if outcome.violations > 0 { break }
      if untilReads > 0, (outcome.counts["reads"] ?? 0) >= untilReads { break }
    }
    control.stop()
    for child in children {
      let lines = (try? child.remainingLines(deadline: .seconds(20))) ?? []
      for line in lines where line != "ready" { print("storm: \(line)") }
      _ = try? child.wait(deadline: .seconds(20))
    }
    outcome.counts = control.counts
    print("storm of \(mutant ?? "no mutant"): \(outcome.kills) kills, \(outcome.counts)")
    return outcome
  }

  static let hostileFaults =
    "*:delay=60%1,afterStamps:kill%0.2,betweenStamps:kill%0.1,beforeCommit:kill%0.2,"
    + "afterCommit:kill%0.2,begin:kill%0.1,openBeforeEnvironment:kill%1,openTableReady:kill%1"

  @Test(.timeLimit(.minutes(10)))
  func `Storm: nothing acknowledged is lost and nothing stale is served under kills`() throws {
    let outcome = try storm(
      seconds: hasFaults ? 25 : 8, faults: hasFaults ? Self.hostileFaults : "")
    #expect(outcome.violations == 0, "\(outcome.counts)")
    #expect(outcome.kills > (hasFaults ? 50 : 5))
    #expect((outcome.counts["reads"] ?? 0) > 100_000)
    #expect(outcome.endings == [])
  }

  @Test(
    .enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(10)),
    arguments: ["stampsAfterCommit", "stampsOneLow", "filedOneHigh"])
  func `Storm: a broken rule is noticed`(mutant: String) throws {
    let outcome = try storm(
      seconds: 40, mutant: mutant, faults: "afterCommit:delay=300%20,beforeFill:delay=200%5")
    #expect(outcome.violations > 0, "\(outcome.counts)")
  }

  static let scenarios = [
    "renew", "combiner", "generations", "condemned", "fill", "budget", "lease",
  ]

  func run(_ scenario: String, mutant: String? = nil) throws -> ChildProcess.Outcome {
    let directory = try TemporaryDirectory()
    return try ChildProcess.run(
      PeerExecutable("larder-stress").path, ["scenario", scenario, directory.path + "/store"],
      environment: mutant.map { ["LARDER_MUTANT": $0] } ?? [:], deadline: .seconds(60))
  }

  @Test(.timeLimit(.minutes(10)), arguments: scenarios)
  func `Storm: the rule of a scenario holds`(scenario: String) throws {
    let outcome = try run(scenario)
    #expect(outcome.status == .exited(0), "\(outcome.lines)")
  }

  @Test(.enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(10)))
  func `Storm: a slot a killed writer stamped is served from memory again`() throws {
    let outcome = try run("bump")
    #expect(outcome.status == .exited(0), "\(outcome.lines)")
  }

  @Test(
    .enabled(if: hasFaults, needsFaults), .timeLimit(.minutes(10)),
    arguments: [
      ("renew", "noRenewCheck"), ("combiner", "combinerFilesFirst"),
      ("generations", "labelsWithoutBase"), ("condemned", "condemnWithoutFloor"),
      ("bump", "noBump"), ("fill", "fillIgnoresCancel"), ("budget", "budgetOffByOne"),
      ("lease", "leaseOutlivesHolder"),
    ])
  func `Storm: a scenario notices that its rule is broken`(
    scenario: String, mutant: String
  ) throws {
    let outcome = try run(scenario, mutant: mutant)
    #expect(outcome.status == .exited(3), "\(outcome.lines)")
  }
}
