// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

extension StoreBackend {
  func contains(_ key: Key) throws -> Bool {
    let place = try open("contains", key)
    return try place.core.contains(place.encoded, in: place.space)
  }

  func find(_ key: Key, _ read: KeyRead) throws -> KeyState<LoadedValue<Value>> {
    try find(key, read, at: open("get", key))
  }

  func find(
    _ key: Key, _ read: KeyRead, at place: StoreKey
  ) throws -> KeyState<LoadedValue<Value>> {
    if let request = place.pendingWrite, let pending = try pending(request, key, place) {
      if pending == nil, !read.isRepeated { place.core.countMiss() }
      return pending.map { .value($0) } ?? .unknown
    }
    let known = revalidateCommitted(key, place)
    if let current = known.current { return .value(current) }

    let lookup = try place.core.lookup(
      place.encoded, in: place.space, known: known.commitVersion, includesKept: read.includesKept,
      isRepeated: read.isRepeated)
    switch lookup.outcome {
    case .absent, .knownAbsent:
      removeStale(key, readVersion: lookup.readVersion)
      if case .knownAbsent = lookup.outcome { return .absent }
      return .unknown
    case .unreadable(let text):
      throw context.unreadable(text, key)
    case .unchanged:
      // The entry is the one that was decoded before: keep the value, advance its read version.
      if let value = revalidateUnchanged(key, lookup, known.commitVersion) { return .value(value) }
      let lookup = try place.core.lookup(
        place.encoded, in: place.space, includesKept: read.includesKept,
        isRepeated: read.isRepeated)
      return try state(lookup, key, place)
    case .found:
      return try state(lookup, key, place)
    }
  }

  private func state(
    _ lookup: Lookup, _ key: Key, _ place: StoreKey
  ) throws -> KeyState<LoadedValue<Value>> {
    if case .knownAbsent = lookup.outcome { return .absent }
    return try decode(lookup, key, place).map { .value($0) } ?? .unknown
  }

  func values(for keys: some Sequence<Key>) throws -> [Key: Value] {
    let (core, space) = try open("get")
    var result: [Key: Value] = [:]
    var wanted: [(key: Key, place: StoreKey)] = []
    for key in keys {
      let place = StoreKey(core: core, space: space, encoded: EncodedKey(key))
      // A pending write overrides the snapshot.
      if place.pendingWrite != nil {
        result[key] = try load(key)?.value
      } else {
        wanted.append((key, place))
      }
    }
    let found = try core.lookup(wanted.map(\.place.encoded), in: space)
    for (item, lookup) in zip(wanted, found) {
      if case .unreadable(let text) = lookup.outcome { throw context.unreadable(text, item.key) }
      if let loaded = try decode(lookup, item.key, item.place) { result[item.key] = loaded.value }
    }
    return result
  }

  func observe(_ key: Key) throws -> ObservedValue<Value> {
    let place = try open("values", key)
    let core = place.core
    // The snapshot to wait on precedes the read, so that the value can only be newer.
    let mark = try core.observationMark()
    let (snapshot, slot) = try core.withSnapshot("values") { view in
      (
        core.observed(view.generation, commitVersion: view.commitVersion, mark: mark),
        StampSlot(hash: place.hash(in: view.generation))
      )
    }
    let loaded = try load(key)
    return ObservedValue(value: loaded?.value) { [store] in
      guard let core = try? store.openCore("values") else { return }
      // A removal by tag changes the value as well.
      await core.change(
        of: [slot] + (loaded?.tags ?? []).map { StampSlot(hash: $0) }, after: snapshot,
        ObserverConditions(deadline: loaded?.expires ?? EntryHeader.never) { store.hasClosed })
    }
  }

  // MARK: Memory

  /// Inserts a value into the tier, unless this process has a pending write of the key.
  func insert(
    _ value: Value, _ key: Key, _ place: StoreKey, _ origin: TierOrigin,
    _ entry: (expires: Int64, payloadSize: Int)
  ) {
    tier.insert(
      value, forKey: key, from: origin, expires: entry.expires,
      cost: context.cost(of: value, bytes: entry.payloadSize)
    ) {
      place.isSettled(hash: origin.storeHash)
    }
  }

  private func decode(
    _ lookup: Lookup, _ key: Key, _ place: StoreKey
  ) throws -> LoadedValue<Value>? {
    guard case .found(let stored) = lookup.outcome else { return nil }
    // Of a process that uses the namespace without the server, or from a time without it.
    if tier.isRemote, stored.remoteVersion == 0 { return nil }
    let value = try context.decode(stored.payload, codec: stored.codec, of: key)
    var origin = TierOrigin(lookup, commitVersion: stored.commitVersion)
    origin.lifetime = stored.lifetime
    origin.tags = stored.tags
    origin.computeTime = stored.computeTime
    insert(value, key, place, origin, (stored.expires, stored.payload.count))
    var loaded = LoadedValue(
      value: value, expires: stored.expires, lifetime: stored.lifetime, now: place.core.now)
    loaded.tags = stored.tags
    loaded.version = stored.commitVersion
    loaded.computeTime = stored.computeTime
    return loaded
  }

  /// Advances the read version of a cached value whose entry a look-up found unchanged.
  ///
  /// - Returns: The value, or `nil` if the tier no longer holds the version of the look-up.
  private func revalidateUnchanged(
    _ key: Key, _ lookup: Lookup, _ commitVersion: UInt64
  ) -> LoadedValue<Value>? {
    let found: (LoadedValue<Value>, origin: TierOrigin, cost: Int, isOfOldTable: Bool)?? =
      tier.withEntry(key) { entry, table in
        guard entry.record == nil, entry.commitVersion == commitVersion else { return nil }
        entry.readVersion = min(entry.readVersion, lookup.readVersion)
        entry.storeHash = lookup.hash
        var loaded = LoadedValue(
          value: entry.value, expires: entry.expires, lifetime: entry.lifetime, now: tier.now)
        loaded.tags = entry.tags
        loaded.version = commitVersion
        loaded.computeTime = entry.computeTime
        if entry.lifetime != 0 { lookup.generation.table.touch(hash: lookup.hash, at: tier.now) }
        var origin = TierOrigin(lookup, commitVersion: commitVersion)
        origin.lifetime = entry.lifetime
        origin.tags = entry.tags
        origin.computeTime = entry.computeTime
        return (loaded, origin, entry.cost, table !== lookup.generation.table)
      }
    guard let (loaded, origin, cost, isOfOldTable) = found ?? nil else { return nil }
    // A shard of an older generation changes to the new one's table.
    if isOfOldTable {
      tier.insert(
        loaded.value, forKey: key, from: origin, expires: loaded.expires, cost: cost)
    }
    return loaded
  }

  /// Removes the cached value of a key that a snapshot does not contain, unless it is newer.
  private func removeStale(_ key: Key, readVersion: UInt64) {
    let isOld = tier.withEntry(key) { entry, _ in
      entry.record == nil && entry.readVersion >= readVersion
    }
    if isOld == true { tier.remove(key) }
  }

  // MARK: Pending writes

  /// Returns the value that a pending write gives its key: `.some(nil)` if it removes the key, and
  /// `nil` if the write is no longer pending, so that the store decides.
  private func pending(
    _ request: WriteRequest, _ key: Key, _ place: StoreKey
  ) throws -> LoadedValue<Value>?? {
    switch request.phase {
    case .queued: break
    case .inFlight(let commitVersion):
      // Until its commit has ended, it is the newest write only while no other transaction begins.
      let slot = StampSlot(hash: place.hash(in: try place.core.generation()))
      guard place.core.isNewest(request, inFlight: commitVersion, slot: slot) else { return nil }
    case .committed, .superseded, .failed: return nil
    }
    guard case .put(let content) = request.kind, content.expires > place.core.now,
      !content.isAbsent
    else {
      return .some(nil)
    }
    let cached: LoadedValue<Value>?? = tier.withEntry(key) { entry, _ in
      entry.record === request ? LoadedValue(value: entry.value, expires: entry.expires) : nil
    }
    if let cached = cached ?? nil { return cached }
    let value = try context.decode(content.payload, codec: content.codec, of: key)
    return LoadedValue(value: value, expires: content.expires)
  }

  /// Gives a cached value whose write request was committed the read version of the commit.
  ///
  /// - Returns: The value, if no newer write exists; otherwise the commit version of its entry.
  private func revalidateCommitted(
    _ key: Key, _ place: StoreKey
  ) -> (current: LoadedValue<Value>?, commitVersion: UInt64) {
    guard let generation = try? place.core.generation() else { return (nil, 0) }
    let result: (LoadedValue<Value>?, UInt64)? = tier.withEntry(key) { entry, table in
      guard let request = entry.record else {
        // A commit version does not identify entries of another store's files.
        return (nil, table === generation.table ? entry.commitVersion : 0)
      }
      guard case .committed(let commitVersion) = request.phase, request.matches(generation) else {
        return (nil, 0)
      }
      entry.record = nil
      entry.commitVersion = commitVersion
      entry.readVersion = ~commitVersion
      entry.storeHash = place.hash(in: generation)
      // Pending writes first, then the stamps: see ``MemoryTier/validValue(_:)``.
      // A sliding expiration begins with the write: if the time has passed, the store decides.
      guard
        place.pendingWrite == nil,
        generation.table.isCurrent(
          slot: StampSlot(hash: entry.storeHash), readVersion: entry.readVersion),
        entry.expires > place.core.now
      else { return (nil, commitVersion) }
      if entry.lifetime != 0 {
        generation.table.touch(hash: entry.storeHash, at: place.core.now)
      }
      var loaded = LoadedValue(
        value: entry.value, expires: entry.expires, lifetime: entry.lifetime,
        now: place.core.now)
      loaded.version = commitVersion
      return (loaded, commitVersion)
    }
    if let current = result?.0 {
      tier.adopt(key, table: generation.table)
      return (current, 0)
    }
    return (nil, result?.1 ?? 0)
  }
}
