// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderCoding
import LarderEngine

/// The answer of `larder top --once --json`. The article "Operating a store" lists its fields.
extension TopReport {
  var json: CBORValue {
    .object(
      store + [
        ("operationsPerSecond", .object(Self.counters.map { ($1, number(rate($0))) })),
        ("hitRatio", number(ratio(.memoryHits, .storeHits))),
        ("memoryHitRatio", number(ratio(.memoryHits))),
        ("storeHitRatio", number(ratio(.storeHits))),
        ("hitRatioOfAllTime", number(ratioOfAllTime)),
        ("processes", .array(processes.map(json))), ("commits", commits),
        (
          "writer",
          writer.map {
            .object([("pid", CBORValue(Int($0.pid))), ("milliseconds", number($0.milliseconds))])
          } ?? .null
        ),
        ("readers", .array((now.content?.readers ?? []).map(json))),
        ("computations", .array(now.computations.map(json))),
        ("locks", .array(now.locks.map(\.json))),
        ("namespaces", .array(namespaces.map(json))), ("keys", keys.map(json) ?? .null),
      ])
  }

  private var store: [(String, CBORValue)] {
    let totals = now.content?.totals
    func optional(_ value: UInt64?) -> CBORValue { value.map(CBORValue.unsigned) ?? .null }
    return [
      ("path", .text(now.path)), ("durability", .text(now.durability.rawValue)),
      ("generation", .unsigned(now.generation)),
      ("time", .text(Timestamp(now.time.milliseconds).iso)), ("seconds", number(seconds)),
      ("entries", optional(totals?.entries)), ("bytes", optional(totals?.bytes)),
      ("objectBytes", optional(totals?.objectBytes)), ("budget", optional(now.budget)),
      ("entryBudget", optional(now.entryBudget)), ("fileBytes", CBORValue(now.fileBytes)),
    ]
  }

  private func number(_ value: Double?) -> CBORValue { value.map(CBORValue.float) ?? .null }

  private func json(_ process: Process) -> CBORValue {
    .object([
      ("pid", CBORValue(Int(process.state.pid))),
      ("startTime", .unsigned(process.state.startTime)),
      ("stopped", .boolean(process.state.isStopped)),
      (
        "operationsPerSecond",
        .object(Self.counters.map { ($1, number(process.rate($0))) })
      ),
    ])
  }

  private var commits: CBORValue {
    func below(_ share: Double) -> CBORValue {
      number(commitTimes.index(ofShare: share).flatMap(CommitTimes.limit))
    }
    let classes = commitTimes.counts.enumerated().map { index, count in
      CBORValue.object([
        ("belowMicroseconds", number(CommitTimes.limit(index))),
        ("count", .unsigned(UInt64(count))),
      ])
    }
    return .object([
      ("count", CBORValue(commitTimes.total)), ("halfBelowMicroseconds", below(0.5)),
      ("p99BelowMicroseconds", below(0.99)), ("longestBelowMicroseconds", below(1)),
      ("classes", .array(classes)),
    ])
  }

  private func json(_ reader: StoreObservation.Reader) -> CBORValue {
    .object(
      ReaderLine(reader, pageSize: now.pageSize).fields + [
        ("pinnedPages", CBORValue(reader.pinnedPages)),
        ("pinnedPagesComplete", .boolean(reader.isPageCountComplete)),
      ])
  }

  private func json(_ computation: StoreObservation.Computation) -> CBORValue {
    let lease = computation.lease
    return .object([
      ("pid", CBORValue(Int(computation.pid))), ("key", .text(KeyName.text(lease.key))),
      ("keyComplete", .boolean(!lease.isKeyCut)),
      ("namespace", CBORValue(name(ofNamespace: lease.namespace))),
      ("since", .text(Timestamp(lease.since).iso)), ("cancelled", .boolean(lease.isCancelled)),
    ])
  }

  private func json(_ namespace: Namespace) -> CBORValue {
    func limit(_ value: UInt64) -> CBORValue { value == 0 ? .null : .unsigned(value) }
    let record = namespace.record
    return .object([
      ("name", .text(namespace.name)), ("entries", .unsigned(record.entries)),
      ("bytes", .unsigned(record.bytes)), ("minimumBytes", limit(record.minimum)),
      ("maximumBytes", limit(record.maximum)), ("maximumEntries", limit(record.maximumEntries)),
      ("entriesPerSecond", number(namespace.entries)), ("bytesPerSecond", number(namespace.bytes)),
      ("sampledUses", namespace.uses.map { CBORValue($0) } ?? .null),
    ])
  }

  private func json(_ keys: HotKeys) -> CBORValue {
    let hottest = keys.keys.prefix(20).map { key in
      CBORValue.object([
        ("key", CBORValue(key.entry?.key.map(KeyName.text))),
        ("keyType", CBORValue(key.entry?.key.map { KeyKind.shown($0).kind.description })),
        ("namespace", CBORValue(key.entry.flatMap { name(ofNamespace: $0.namespace) })),
        ("uses", CBORValue(key.uses)), ("hits", CBORValue(key.reads)),
        ("misses", CBORValue(key.misses)), ("writes", CBORValue(key.writes)),
      ])
    }
    return .object([
      ("sampledUses", CBORValue(keys.uses)), ("complete", .boolean(keys.isComplete)),
      ("hottest", .array(Array(hottest))),
    ])
  }
}

/// The text of a key.
enum KeyName {
  static func text(_ key: EncodedKey) -> String {
    KeyTextFormat.display(tag: KeyTag(rawValue: key.tag), bytes: key.bytes)
  }
}
#endif
