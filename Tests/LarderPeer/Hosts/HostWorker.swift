// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools && Redis
import ArgumentParser
import Larder
import LarderEngine
import LarderRedis
import LarderSystem
import LarderTesting
import Synchronization

/// Reads and writes as one process of a host, and checks what it reads.
struct HostWorker: AsyncParsableCommand {
  /// The place of the values.
  enum Mode: String, ExpressibleByArgument, CaseIterable { case larder, redis }

  static let configuration = CommandConfiguration(
    commandName: "worker",
    abstract: "Read and write as one process of a host; print one line of JSON.")

  @Option(help: "The store of the host.") var store: String
  @Option(help: "The URL of the server.") var url: String
  @Option(help: "The file of the oracle, which all hosts share.") var oracle: String?
  @Option(help: "The number of this process among those of all hosts.") var index = 0
  @Option(help: "The number of processes of all hosts.") var processes = 1
  @Option(help: "The number of keys.") var keys = 1000
  @Option(help: "The part of operations that write.") var writes = 0.05
  @Option(help: "The tasks that work at the same time.") var tasks = 4
  @Option(help: "The longest staleness in milliseconds.") var staleness = 1000
  @Option(help: "The time limit of a command in milliseconds.") var timeout = 500
  @Option(help: "The replicas that have a write before it is acknowledged.") var replicas = 0
  @Option(help: "The time in seconds.") var seconds = 2.0
  @Option(help: "larder, or redis for the server alone.") var mode = Mode.larder
  @Flag(help: "Missing values are computed.") var computes = false
  @Flag(help: "Write all keys first.") var fills = false
  @Flag(
    help: ArgumentHelp(
      "Say that all changes were applied without asking: a broken rule, which must be noticed."))
  var lies = false
  @Flag(help: "Work until the next line on the standard input, and not for a time.")
  var untilLine = false
  @Flag(help: "Begin when a line comes on the standard input.") var waits = false

  func run() async throws {
    let run = try WorkerRun(self)
    try await run.prepare()
    if fills, index == 0 { try await run.fill() }
    if waits {
      print("ready")
      StandardOutput.flush()
      _ = readLine()
    }
    print(try await run.run())
  }
}

/// One run of a worker.
final class WorkerRun: Sendable {
  /// The counts of tasks.
  struct Tally: Sendable {
    var reads = 0
    var writes = 0
    var misses = 0
    var violations = 0
    var computations = 0
    var longest: UInt64 = 0
    var errors: [String: Int] = [:]

    mutating func add(_ other: Tally) {
      reads += other.reads
      writes += other.writes
      misses += other.misses
      violations += other.violations
      computations += other.computations
      longest = max(longest, other.longest)
      errors.merge(other.errors, uniquingKeysWith: +)
    }
  }

  private let options: HostWorker
  private let oracle: HostOracle?
  private let zipf: ZipfNumbers
  private let client: RedisClient
  private let store: SharedStore?
  private let link: RedisLink?
  private let cache: PersistentCache<Int, String>?
  /// Whether the run is to end.
  private let ending = EndMark()
  private static let filling = String(repeating: "x", count: 90)

  init(_ options: HostWorker) throws {
    self.options = options
    oracle = try options.oracle.map { try HostOracle(path: $0, keys: options.keys) }
    zipf = ZipfNumbers(count: options.keys)
    var configuration = try RedisConfiguration(url: options.url)
    configuration.timeout = .milliseconds(options.timeout)
    configuration.connectTimeout = max(configuration.connectTimeout, configuration.timeout)
    client = RedisClient(configuration)
    guard options.mode == .larder else {
      (store, link, cache) = (nil, nil, nil)
      return
    }
    let store = try SharedStore(at: options.store, .init(budget: .megabytes(64)))
    let link = try RedisLink(configuration, prefix: "hosts")
    cache = PersistentCache(
      storage: store, namespace: "pages", remote: link,
      remoteOptions: RemoteOptions(
        maxStaleness: .milliseconds(options.staleness), onLoss: .fail,
        acknowledgement: options.replicas > 0 ? .replicas(options.replicas) : .primary,
        claimTime: .seconds(2)))
    (self.store, self.link) = (store, link)
  }

  /// Waits until there is a link, so that the first reads are no special case.
  func prepare() async throws {
    guard let record else { return }
    try await awaitEventually("there is a link") { record.link != 0 }
  }

  /// Writes all keys.
  func fill() async throws {
    for start in stride(from: 0, to: options.keys, by: 500) {
      let keys = start..<min(start + 500, options.keys)
      if let cache {
        try await cache.setValues(keys.map { ($0, "1 \(Self.filling)") })
      } else {
        _ = try await client.send(
          keys.map { RedisCommand("SET", "pages:\($0)", "1 \(Self.filling)") })
      }
    }
  }

  /// Breaks the rule that changes are applied before the time is confirmed.
  private func lie() {
    record?.confirm(
      fresh: Clocks.monotonicNanoseconds(), wall: Clocks.wallMilliseconds(), roundTrip: 0)
  }

  private var record: RemoteRecord? {
    guard let link else { return nil }
    return try? store?.core.generation().table.remoteRecord(RemoteName(link.description))
  }

  func run() async throws -> String {
    let start = Clocks.monotonicNanoseconds()
    let end = options.untilLine ? UInt64.max : start + UInt64(options.seconds * 1e9)
    if options.untilLine {
      Task { [ending] in
        try? await BlockingWork.run { _ = readLine() }
        ending.store(true)
      }
    }
    let total = await withTaskGroup(of: Tally.self) { group in
      for task in 0..<options.tasks { group.addTask { await self.work(task, until: end) } }
      return await group.reduce(into: Tally()) { $0.add($1) }
    }
    let seconds = Double(Clocks.monotonicNanoseconds() - start) / 1e9
    let record = record
    func count(_ counter: RemoteCounter) -> UInt64 { record?.value(of: counter) ?? 0 }
    let errors = total.errors.sorted { $0.key < $1.key }.map { "\"\($0.key)\": \($0.value)" }
    return """
      {"index": \(options.index), "seconds": \(seconds), "reads": \(total.reads), \
      "writes": \(total.writes), "misses": \(total.misses), "violations": \(total.violations), \
      "longest_ms": \(total.longest / 1_000_000), "computations": \(total.computations), \
      "fetched_by_host": \(count(.fetchedHits) + count(.fetchedMisses)), \
      "verified_by_host": \(count(.revalidations)), "links_of_host": \(count(.connections)), \
      "invalidations_of_host": \(count(.invalidations)), \
      "errors": {\(errors.joined(separator: ", "))}}
      """
  }

  private func work(_ task: Int, until end: UInt64) async -> Tally {
    var tally = Tally()
    var random = SeededRandom(seed: UInt64.random(in: 0...UInt64.max))
    let writers = options.processes * options.tasks
    let own = options.index * options.tasks + task
    // The first values have the number 1.
    var numbers: [Int: UInt64] = [:]
    var turns = 0
    while true {
      turns += 1
      if turns & 15 == 0, Clocks.monotonicNanoseconds() >= end || ending.value { return tally }
      var key = zipf.next(&random)
      let isWrite = Double.random(in: 0..<1, using: &random) < options.writes
      do {
        if isWrite {
          key = key / writers * writers + own
          if key >= options.keys { continue }
          let number = numbers[key, default: options.fills ? 1 : 0] + 1
          // Also after a failure: whether the server has the number is not known.
          numbers[key] = number
          try await write(number, key)
          tally.writes += 1
        } else {
          if options.lies { lie() }
          try await check(key, &tally)
        }
      } catch {
        let code = (error as? RedisError)?.code.rawValue ?? (error as? StoreError)?.code.rawValue
        tally.errors[code ?? "\(type(of: error))", default: 0] += 1
        // Errors that come at once would fill the processor.
        try? await BlockingWork.sleep(for: .milliseconds(1))
      }
    }
  }

  private func write(_ number: UInt64, _ key: Int) async throws {
    let text = "\(number) \(Self.filling)"
    if let cache {
      try await cache.setValue(text, forKey: key)
    } else {
      try await client.send(RedisCommand("SET", "pages:\(key)", text))
    }
    oracle?.record(number, key: key)
  }

  private func check(_ key: Int, _ tally: inout Tally) async throws {
    let start = oracle == nil ? 0 : Clocks.monotonicNanoseconds()
    let text: String?
    if let cache {
      if options.computes {
        let counter = ComputationCount()
        text = try await cache.value(forKey: key, absentFor: .seconds(1)) {
          counter.add()
          return nil
        }
        tally.computations += counter.value
      } else {
        text = try await cache.value(forKey: key)
      }
    } else {
      text = try await client.send(RedisCommand("GET", "pages:\(key)")).text
    }
    tally.reads += 1
    guard let text else {
      tally.misses += 1
      return
    }
    guard let oracle, let number = text.split(separator: " ").first.flatMap({ UInt64($0) }) else {
      return
    }
    let age = oracle.staleness(of: number, key: key, at: start)
    tally.longest = max(tally.longest, age)
    if age > UInt64(options.staleness) * 1_000_000 { tally.violations += 1 }
  }
}

final class EndMark: Sendable {
  private let word = Atomic<Bool>(false)
  func store(_ value: Bool) { word.store(value, ordering: .relaxed) }
  var value: Bool { word.load(ordering: .relaxed) }
}

private final class ComputationCount: Sendable {
  private let count = Atomic<Int>(0)
  func add() { count.add(1, ordering: .relaxed) }
  var value: Int { count.load(ordering: .relaxed) }
}
#endif
