// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Larder
import LarderEngine
import LarderSystem
import LarderTesting
import Synchronization

/// One case: opens a damaged store and runs every operation that a program may run.
struct DamageSession {
  let plan: DamagePlan
  let board: DamageProgress
  let path: String
  private var judge: DamageOracle
  private var random: SeededRandom
  private(set) var violations: [String] = []
  private var unreadable: Set<DamageKey> = []
  private let events = EventCounter()

  private final class EventCounter: Sendable {
    let count = Atomic<Int>(0)
    let emptied = Atomic<Int>(0)
    func note(_ event: StoreEvent) {
      count.wrappingAdd(1, ordering: .relaxed)
      if case .resetToEmpty = event { emptied.wrappingAdd(1, ordering: .relaxed) }
    }
  }

  init(plan: DamagePlan, models: [DamageModel], board: DamageProgress, path: String) {
    self.plan = plan
    self.board = board
    self.path = path
    judge = DamageOracle(
      model: models[plan.template.number], durability: plan.template.durability,
      allowance: plan.allowance, foreign: plan.foreign.map { models[$0] })
    random = Seed(plan.seed).generator(stream: 1 << 33 + UInt64(plan.number))
  }

  mutating func run() throws {
    board.enter(.preparing)
    try plan.apply(at: path)
    use(isFirst: true)
    guard violations.isEmpty else { return }
    use(isFirst: false)
  }

  private func open() throws -> SharedStore {
    let events = events
    return try SharedStore(
      at: path, plan.template.options(now: DamageModel.openTime) { events.note($0) })
  }

  /// Opens, verifies, reads, lists, writes and closes once.
  private mutating func use(isFirst: Bool) {
    board.enter(.comparing)
    // Reading a pipe would block.
    let isFile = (try? FileSystem.status(of: dataPath))??.isRegularFile == true
    let isKept = isFile && plan.template.durability != .cache
    let before = isKept ? try? TestFiles.contents(of: dataPath) : nil
    board.enter(isFirst ? .opening : .reopening)
    let store: SharedStore
    do {
      store = try open()
    } catch {
      board.add(.refused)
      var seen = DamageObservation(opening: Self.opening(error))
      if let before { seen.isDataUntouched = (try? TestFiles.contents(of: dataPath)) == before }
      report(seen)
      return
    }
    board.add(.opened)
    board.enter(.verifying)
    var seen = DamageObservation(opening: .opened)
    do {
      seen.findings = try store.verify().count
      if seen.findings != 0 { board.add(.unsound) }
    } catch let error as StoreError where DamageOracle.failures.contains(error.code) {
      board.add(.unsound)
    } catch {
      violations.append("verify() threw \(error)")
    }
    board.enter(isFirst ? .reading : .rereading)
    for key in judge.model.keys + Array(judge.written.keys) { seen.reads[key] = read(key, store) }
    seen.unreadableBefore = unreadable
    if isFirst {
      for (key, read) in seen.reads {
        if case .hit = read { continue }
        unreadable.insert(key)
      }
    }
    board.enter(.listing)
    list(store)
    if isFirst {
      board.enter(.writing)
      write(store)
    }
    board.enter(.closing)
    store.close()
    board.enter(.judging)
    seen.isAnnounced = events.count.load(ordering: .relaxed) > 0
    if isFirst { board.add(.healed, events.emptied.load(ordering: .relaxed) > 0 ? 1 : 0) }
    report(seen, isFirst: isFirst)
  }

  private var dataPath: String {
    "\(path)\(plan.template.root)/g-\(plan.template.generation)/data.mdb"
  }

  private mutating func report(_ seen: DamageObservation, isFirst: Bool = true) {
    // The writes of the first use are checked directly after each write.
    var judge = judge
    if isFirst { judge.written = [:] }
    violations += judge.judge(seen).map { isFirst ? $0 : "opened again: \($0)" }
    guard !isFirst, seen.opening == .opened, seen.findings == 0 else { return }
    for (key, _) in judge.written {
      guard let read = seen.reads[key] else { continue }
      if let text = judge.judgeOwn(key, read, isAnnounced: seen.isAnnounced) {
        violations.append("opened again: \(text)")
      }
    }
  }

  private static func opening(_ error: any Error) -> DamageObservation.Opening {
    guard let error = error as? StoreError else { return .untyped("\(error)") }
    return .refused(error.code)
  }

  // MARK: Reading

  private func read(_ key: DamageKey, _ store: SharedStore) -> DamageObservation.Read {
    do {
      let name = DamageKey.namespaces[key.namespace]
      guard let bytes = try store.bytes(forKey: key.number, in: name) else {
        board.add(.misses)
        return .miss
      }
      board.add(.hits)
      return .hit(bytes)
    } catch let error as StoreError {
      board.add(.failures)
      return .failed(error.code)
    } catch {
      return .untyped("\(error)")
    }
  }

  /// Lists all entries: the listing must end, and must throw typed errors only.
  private mutating func list(_ store: SharedStore) {
    do {
      var next: UInt64? = 0
      var count = 0
      while let start = next {
        let page = try store.core.page(of: nil, from: start, limit: 50)
        count += page.entries.count
        if let following = page.next, following < start || count > 100_000 {
          violations.append("a listing goes in circles")
          return
        }
        next = page.next
      }
      _ = try store.core.namespaces()
      if let ratio = try store.statistics().hitRatio, !(0...1).contains(ratio) {
        violations.append("a hit ratio of \(ratio)")
      }
    } catch let error as StoreError where DamageOracle.failures.contains(error.code) {
    } catch {
      violations.append("listing threw \(error)")
    }
  }

  // MARK: Writing

  private mutating func write(_ store: SharedStore) {
    let keys = judge.model.keys
    var targets = (0..<4).map { _ in keys.randomElement(using: &random)! }
    targets.append(DamageKey(namespace: 1, number: 50))
    targets.append(DamageKey(namespace: 4, number: 60))
    for (index, key) in targets.enumerated() {
      let sequence = DamageOracle.firstOwnSequence + UInt32(index)
      let value = DamageValue.bytes(
        template: plan.template.number, key: key, sequence: sequence)
      let name = DamageKey.namespaces[key.namespace]
      let done = attempt("setBytes") {
        if index == 0 {
          try store.write { try $0.setBytes(value, forKey: key.number, in: name) }
        } else {
          let life: Expiration = index == 1 ? .after(.seconds(600)) : .never
          try store.setBytes(value, forKey: key.number, in: name, expires: life)
        }
      }
      check(key, done, sequence, store)
    }
    for _ in 0..<2 {
      let key = keys.randomElement(using: &random)!
      let done = attempt("remove") {
        try store.remove(forKey: key.number, in: DamageKey.namespaces[key.namespace])
      }
      check(key, done, nil, store)
    }
    if random.chance(30) {
      let late = Set(keys + targets).filter { $0.namespace == 4 }
      if attempt("removeAll", { try store.removeAll(in: "late") }) {
        for key in late { check(key, true, nil, store) }
      } else {
        judge.uncertain = late
      }
    }
    if random.chance(30) { _ = attempt("removeExpired") { try store.removeExpired() } }
    if random.chance(15) { _ = attempt("compact") { try store.compact() } }
    for key in judge.written.keys { checkOwn(key, store) }
  }

  /// Whether an operation was acknowledged. It may fail, but only as damage does.
  private mutating func attempt(_ name: String, _ body: () throws -> Void) -> Bool {
    do {
      try body()
      return true
    } catch let error as StoreError where DamageOracle.failures.contains(error.code) {
      board.add(.failures)
    } catch {
      violations.append("\(name) threw \(error)")
    }
    return false
  }

  private mutating func check(
    _ key: DamageKey, _ isDone: Bool, _ sequence: UInt32?, _ store: SharedStore
  ) {
    guard isDone else { return }
    judge.written.updateValue(sequence, forKey: key)
    checkOwn(key, store)
  }

  private mutating func checkOwn(_ key: DamageKey, _ store: SharedStore) {
    let count = events.count.load(ordering: .relaxed)
    let isAnnounced = count > 0
    if let text = judge.judgeOwn(key, read(key, store), isAnnounced: isAnnounced) {
      violations.append(text)
    }
  }
}
#endif
