// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine
import LarderPeer
import LarderTesting
import Testing

/// The damage mode of the stress tool, for a few seconds, and its fuzzers.
@Suite(.timeLimit(.minutes(60))) struct DamageModeTests {
  #if DEBUG
  // Without optimisation a case takes twenty times as long.
  static let files = 80
  #else
  static let files = 400
  #endif

  @Test func `Damaged files give errors and misses only`() async throws {
    let seed = Seed.announce().value % (1 << 40)
    let outcome = try await DamageRun.run(
      seconds: 4, minimumFiles: Self.files, seed: seed, workers: 2, report: { print($0) })
    #expect(outcome.violations == [])
    #expect(outcome.filesDamaged >= Self.files)
    // Each one is opened, and nearly all of them twice.
    #expect(outcome.opened > outcome.filesDamaged)
  }

  @Test func `The fuzzers take what their mutators make`() throws {
    let seed = Seed.announce().value % (1 << 40)
    let directory = try TemporaryDirectory()
    let names = [
      "entry", "records", "cbor", "state", "current", "key", "table", "verifier", "query", "line",
      "indexkey", "object", "catalog",
    ]
    var left = names
    // On a busy machine the time of a target may be over when its worker has begun.
    for seconds in [4.0, 40, 400] where !left.isEmpty {
      let outcome = try FuzzRun.run(
        targets: left, seconds: seconds, seed: seed, corpus: directory.path, report: { print($0) })
      #expect(outcome.crashes == [])
      left.removeAll { outcome.runs[$0] ?? 0 > 20 }
    }
    #expect(left == [])
  }

  @Test func `A fuzzer finds a trap after two comparisons, names it and keeps the input`() throws {
    let directory = try TemporaryDirectory()
    var crashes: [String] = []
    for seconds in [3.0, 30, 300] where crashes.isEmpty {
      crashes = try FuzzRun.run(
        targets: ["canary"], seconds: seconds, seed: 1, corpus: directory.path, report: { _ in }
      ).crashes
    }
    try #require(!crashes.isEmpty)
    let name = try #require(
      TestFiles.names(in: directory.path).first { $0.hasPrefix("crash-canary-") })
    let input = try TestFiles.contents(of: directory.appending(name))
    #expect(input.prefix(2) == [1, 0xFF] && input[2] & 0x80 != 0)
    #expect(crashes[0].contains("the canary"))
  }
}

/// The oracle: every anomaly it has to detect, forged.
@Suite struct DamageJudgeTests {
  static let seed: UInt64 = 5
  static let model = DamageModel(template: 2, seed: seed)

  /// A key that is there and was written twice, and one that is gone.
  static let living = model.keys.first {
    model.newest[$0] != nil && model.history[$0]!.count > 1
  }!
  static let dead = model.keys.first { model.newest[$0] == nil }!

  func value(_ key: DamageKey, _ sequence: UInt32, template: Int = 2) -> [UInt8] {
    DamageValue.bytes(template: template, key: key, sequence: sequence)
  }

  /// Returns the observation of a process that opens a valid store.
  func soundObservation() -> DamageObservation {
    var seen = DamageObservation(opening: .opened)
    seen.findings = 0
    for key in Self.model.keys {
      seen.reads[key] = Self.model.newest[key].map { .hit(value(key, $0)) } ?? .miss
    }
    return seen
  }

  func judge(
    _ durability: Durability = .durable, _ allowance: PermittedAnomalies = [],
    _ change: (inout DamageObservation) -> Void
  ) -> [String] {
    var seen = soundObservation()
    change(&seen)
    return DamageOracle(
      model: Self.model, durability: durability, allowance: allowance,
      foreign: DamageModel(template: 6, seed: Self.seed)
    ).judge(seen)
  }

  @Test func `A valid store is not a violation`() {
    for durability in Durability.allCases { #expect(judge(durability) { _ in } == []) }
  }

  @Test func `Values that were never written are noticed`() {
    let newest = Self.model.newest[Self.living]!
    var torn = value(Self.living, newest)
    torn[torn.count - 1] ^= 1
    for bytes in [torn, [], Array(value(Self.living, newest).dropLast()), value(Self.living, 4000)]
    {
      #expect(judge { $0.reads[Self.living] = .hit(bytes) }.count == 1)
      #expect(judge(.cache, .older) { $0.reads[Self.living] = .hit(bytes) }.count == 1)
    }
    let other = Self.model.keys.first { $0 != Self.living && Self.model.newest[$0] != nil }!
    let foreign = value(other, Self.model.newest[other]!)
    #expect(judge { $0.reads[Self.living] = .hit(foreign) }.first?.contains("the value of") == true)
  }

  @Test func `An older value is noticed unless the damage put it there`() {
    let old = Self.model.history[Self.living]!.first!
    let read = DamageObservation.Read.hit(value(Self.living, old))
    #expect(judge { $0.reads[Self.living] = read }.first?.contains("stale") == true)
    #expect(judge(.cache) { $0.reads[Self.living] = read }.count == 1)
    #expect(judge(.durable, .foreign) { $0.reads[Self.living] = read }.count == 1)
    #expect(judge(.durable, .older) { $0.reads[Self.living] = read } == [])
  }

  @Test func `What was removed or has expired stays away`() {
    let last = Self.model.history[Self.dead]!.last!
    for durability in Durability.allCases {
      #expect(judge(durability) { $0.reads[Self.dead] = .hit(value(Self.dead, last)) }.count == 1)
    }
  }

  @Test func `A value of another store is noticed unless its file was put here`() {
    let theirs = DamageModel(template: 6, seed: Self.seed)
    let (key, sequence) = theirs.newest.first { Self.model.history[$0.key] != nil }!
    let read = DamageObservation.Read.hit(value(key, sequence, template: 6))
    #expect(judge { $0.reads[key] = read }.first?.contains("another store") == true)
    #expect(judge(.durable, .older) { $0.reads[key] = read }.count == 1)
    #expect(judge(.durable, .foreign) { $0.reads[key] = read } == [])
  }

  @Test func `A durable store must not lose in silence, a cache may`() {
    #expect(judge { $0.reads[Self.living] = .miss }.first?.contains("in silence") == true)
    #expect(judge(.cache) { $0.reads[Self.living] = .miss } == [])
    let found = judge {
      $0.reads[Self.living] = .miss
      $0.findings = 1
    }
    #expect(found == [])
    #expect(judge { $0.reads[Self.living] = .failed(.unreadableEntry) } == [])
  }

  @Test func `Errors without a type, or of the wrong one, are noticed`() {
    #expect(judge { $0.reads[Self.living] = .untyped("LMDBError") }.count == 1)
    #expect(judge { $0.reads[Self.living] = .failed(.system) }.count == 1)
    #expect(judge { $0.opening = .untyped("LMDBError") }.count == 1)
    #expect(judge { $0.opening = .refused(.system) }.count == 1)
    #expect(judge { $0.opening = .refused(.damaged) } == [])
  }

  @Test func `A cache opens, and a refused store is not touched`() {
    #expect(judge(.cache) { $0.opening = .refused(.damaged) }.count == 1)
    #expect(judge(.cache, .refusal) { $0.opening = .refused(.damaged) } == [])
    let touched = judge {
      $0.opening = .refused(.damaged)
      $0.isDataUntouched = false
    }
    #expect(touched.first?.contains("was changed") == true)
  }

  @Test func `A write after the damage is there, and a removal holds`() {
    var judge = DamageOracle(model: Self.model, durability: .durable)
    judge.written[Self.living] = 9000
    let new = DamageObservation.Read.hit(value(Self.living, 9000))
    let old = DamageObservation.Read.hit(value(Self.living, Self.model.newest[Self.living]!))
    #expect(judge.judgeOwn(Self.living, new, isAnnounced: false) == nil)
    #expect(judge.judgeOwn(Self.living, old, isAnnounced: false) != nil)
    #expect(judge.judgeOwn(Self.living, .miss, isAnnounced: true) != nil)
    judge.written.updateValue(nil, forKey: Self.living)
    #expect(judge.judgeOwn(Self.living, .miss, isAnnounced: false) == nil)
    #expect(judge.judgeOwn(Self.living, old, isAnnounced: true) != nil)
    var cache = DamageOracle(model: Self.model, durability: .cache)
    cache.written[Self.living] = 9000
    #expect(cache.judgeOwn(Self.living, .miss, isAnnounced: true) == nil)
    #expect(cache.judgeOwn(Self.living, .miss, isAnnounced: false) != nil)
  }

  @Test func `The model is consistent: every value is read as written`() {
    #expect(Self.model.newest.count > 40 && Self.model.newest.count < Self.model.keys.count)
    for (key, sequences) in Self.model.history {
      for sequence in sequences {
        let read = DamageValue.read(value(key, sequence))
        #expect(read?.key == key && read?.sequence == sequence && read?.template == 2)
      }
    }
  }
}
#endif
