// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

extension PersistentCache {
  /// The value of a key, or `nil` when there is none.
  ///
  /// It is the newest any process was told about when the call began.
  ///
  /// - Throws: ``LarderEngine/StoreError`` with the code `unreadableEntry` when an entry is there
  ///   that is damaged, of a newer format, or of another type; other codes when the store fails.
  @inlinable
  public func value(forKey key: Key) throws -> Value? {
    if let value = tier.hit(key) { return value }
    return try loadValue(key)
  }

  /// The value of a key, or `nil` when there is none; for asynchronous callers.
  ///
  /// A read never waits for writers, so it does not suspend.
  @inlinable
  public func value(forKey key: Key) async throws -> Value? {
    if let value = tier.hit(key) { return value }
    return try loadValue(key)
  }

  @usableFromInline func loadValue(_ key: Key) throws -> Value? { try load(key)?.value }

  /// Whether a key has a value.
  public func contains(_ key: Key) throws -> Bool {
    if tier.hit(key) != nil { return true }
    guard let (core, space) = try engine("contains") else {
      return try foreign.map { try containsForeign(key, $0.store) } ?? false
    }
    return try core.contains(EncodedKey(key), in: space)
  }

  /// The value of a key with the time it expires, read at once.
  package func item(forKey key: Key) throws -> Item<Value>? {
    try load(key).map { Item($0.value, expiration: Self.date($0.expires)) }
  }

  // MARK: Loading

  struct Loaded {
    let value: Value
    let expires: Int64
  }

  static func date(_ expires: Int64) -> Date? {
    expires == EntryHeader.never ? nil : Date(timeIntervalSince1970: Double(expires) / 1000)
  }

  /// Reads past the memory tier, filing what is found.
  func load(_ key: Key) throws -> Loaded? {
    guard let (core, space) = try engine("get") else {
      while let before = tier.withEntry(key, { entry, _ in entry.expires }) {
        guard let value = tier.hit(key) else { break }
        // Replaced between the two looks: the time would be another value's.
        let after = tier.withEntry(key) { entry, _ in entry.expires }
        if after == before { return Loaded(value: value, expires: before) }
      }
      return try foreign.flatMap { try loadForeign(key, $0.store) }
    }
    let encoded = EncodedKey(key)
    if let record = core.pendingWrite(of: encoded, in: space),
      let waiting = try waiting(record, key, encoded, core, space)
    {
      return waiting.loaded
    }
    let known = revalidateCommitted(key, encoded, core, space)
    if let current = known.current { return current }

    let lookup = try core.lookup(encoded, in: space, known: known.label)
    switch lookup.outcome {
    case .absent:
      removeStale(key, seal: lookup.seal)
      return nil
    case .unreadable(let text):
      throw unreadable(text, key)
    case .unchanged:
      // The entry is the one decoded before: keep the value, move its snapshot forward.
      let renewed: Loaded?? = tier.withEntry(key) { entry, _ in
        guard entry.record == nil, entry.label == known.label else { return nil }
        entry.seal = min(entry.seal, lookup.seal)
        entry.storeHash = lookup.hash
        return Loaded(value: entry.value, expires: entry.expires)
      }
      if let renewed = renewed ?? nil {
        refreshTable(key, renewed, lookup, known.label)
        return renewed
      }
      return try decode(core.lookup(encoded, in: space), key, encoded, core, space)
    case .found:
      return try decode(lookup, key, encoded, core, space)
    }
  }

  /// A shard that was filed from an older generation gets the new one's table.
  private func refreshTable(_ key: Key, _ loaded: Loaded, _ lookup: Lookup, _ label: UInt64) {
    let isOld = tier.withEntry(key) { _, table in table !== lookup.generation.table } ?? false
    guard isOld else { return }
    let cost = tier.withEntry(key) { entry, _ in entry.cost } ?? 0
    tier.file(
      loaded.value, forKey: key, seal: lookup.seal, label: label, expires: loaded.expires,
      cost: cost, storeHash: lookup.hash, table: lookup.generation.table)
  }

  private func decode(
    _ lookup: Lookup, _ key: Key, _ encoded: EncodedKey, _ core: StoreCore, _ space: NamespaceHandle
  ) throws -> Loaded? {
    guard case .found(let stored) = lookup.outcome else { return nil }
    let value = try decode(stored.payload, codec: stored.codec, of: key)
    file(value, key, encoded, stored, lookup, core, space)
    return Loaded(value: value, expires: stored.expires)
  }

  /// Files what a snapshot had, unless a write of the key waits in this process's queue.
  func file(
    _ value: Value, _ key: Key, _ encoded: EncodedKey, _ stored: StoredValue, _ lookup: Lookup,
    _ core: StoreCore, _ space: NamespaceHandle
  ) {
    tier.file(
      value, forKey: key, seal: lookup.seal, label: stored.label, expires: stored.expires,
      cost: stored.payload.count + EntryHeader.size, storeHash: lookup.hash,
      table: lookup.generation.table
    ) {
      !core.pending.mayHavePendingWrite(slot: lookup.slot)
        || core.pendingWrite(of: encoded, in: space) == nil
    }
  }

  func decode(_ payload: [UInt8], codec: UInt16, of key: Key) throws -> Value {
    do {
      return try StandardCoding.decode(
        Value.self, identifier: CodecIdentifier(rawValue: codec), bytes: payload,
        codec: options.codec)
    } catch {
      throw unreadable("\(error)", key)
    }
  }

  /// The error for an entry that cannot be read as the cache's type.
  func unreadable(_ cause: String, _ key: Key) -> StoreError {
    StoreError.unreadable("the key \"\(key)\" as \(Value.self): \(cause)", in: namespace)
  }

  /// Removes what is in memory for a key that a snapshot does not have, unless it is newer.
  private func removeStale(_ key: Key, seal: UInt64) {
    let isOld = tier.withEntry(key) { entry, _ in entry.record == nil && entry.seal >= seal }
    if isOld == true { tier.remove(key) }
  }

  // MARK: Waiting writes

  private struct Waiting {
    let loaded: Loaded?
  }

  /// What a write that waits in this process's queue says of its key; `nil`: look in the store.
  private func waiting(
    _ record: WriteRequest, _ key: Key, _ encoded: EncodedKey, _ core: StoreCore,
    _ space: NamespaceHandle
  ) throws -> Waiting? {
    switch record.phase {
    case .queued: break
    case .inFlight(let label):
      // Until its end is known it counts only while no other transaction has begun.
      let slot = Int(space.hash(of: encoded, in: try core.generation()) & 0xFFFF)
      guard core.isNewest(record, inFlight: label, slot: slot) else { return nil }
    case .committed, .superseded, .failed: return nil
    }
    guard case .put(let content) = record.kind else { return Waiting(loaded: nil) }
    guard content.expires > core.now else { return Waiting(loaded: nil) }
    let inMemory: Loaded?? = tier.withEntry(key) { entry, _ in
      entry.record === record ? Loaded(value: entry.value, expires: entry.expires) : nil
    }
    if let inMemory = inMemory ?? nil { return Waiting(loaded: inMemory) }
    return Waiting(
      loaded: Loaded(
        value: try decode(content.payload, codec: content.codec, of: key),
        expires: content.expires))
  }

  /// Seals a value whose record was committed meanwhile.
  ///
  /// - Returns: The value, if nothing newer was written since; else the label it is known under.
  private func revalidateCommitted(
    _ key: Key, _ encoded: EncodedKey, _ core: StoreCore, _ space: NamespaceHandle
  ) -> (current: Loaded?, label: UInt64) {
    guard let generation = try? core.generation() else { return (nil, 0) }
    let result: (Loaded?, UInt64)? = tier.withEntry(key) { entry, table in
      guard let record = entry.record else {
        // A label says nothing about the entries of another store's file.
        return (nil, table === generation.table ? entry.label : 0)
      }
      guard case .committed(let label) = record.phase, record.isOf(generation) else {
        return (nil, 0)
      }
      entry.record = nil
      entry.label = label
      entry.seal = ~label
      entry.storeHash = space.hash(of: encoded, in: generation)
      let slot = Int(entry.storeHash & 0xFFFF)
      // First what waits, then the stamps: see `MemoryTier.hit`.
      guard
        core.pendingWrite(of: encoded, in: space) == nil,
        generation.table.isCurrent(slot: slot, seal: entry.seal), entry.expires > core.now
      else { return (nil, label) }
      return (Loaded(value: entry.value, expires: entry.expires), label)
    }
    if let current = result?.0 {
      tier.adopt(key, table: generation.table)
      return (current, 0)
    }
    return (nil, result?.1 ?? 0)
  }
}
