// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import Synchronization

/// The backend of a cache without a storage: the memory tier holds the only copy of each value.
final class MemoryBackend<Key: CacheKey, Value: Codable & Sendable>: LocalBackend {
  let context: CacheContext<Key, Value>
  let flights = SingleFlightGroup()
  let changes = LocalChangeNotifier<Key>()
  private let calls = CallTracker<Key>()
  /// The version of the last value. They are counted from a random number: a version of another process, or
  /// from before a restart, is that of no value.
  private let versions = Atomic<UInt64>(.random(in: 1..<1 << 62))
  /// The keys that are being changed, by the thread that runs the closure of the change.
  private let changing = Mutex<[UInt64: [Key]]>([:])
  private let changers = Atomic<Int>(0)

  init(_ context: CacheContext<Key, Value>) { self.context = context }

  var identity: ObjectIdentifier { ObjectIdentifier(self) }

  func report(_ error: any Error) {}

  func find(_ key: Key, _ read: KeyRead) -> KeyState<LoadedValue<Value>> {
    let found = cached(key) ?? (read.includesKept ? tier.loaded(key) : nil)
    return found.map { .value($0) } ?? .unknown
  }

  func contains(_ key: Key) -> Bool { false }

  func keys(_ decode: ([UInt8]) -> Key?) -> [Key] { tier.keys }

  func begin(_ key: Key) -> CallTracker<Key>.Call { calls.begin(key) }

  // MARK: Writing

  func fill(
    _ value: Value, for key: Key, _ attributes: EntryAttributes, since call: CallTracker<Key>.Call
  ) throws -> Bool {
    insert(value, key, try place(of: attributes)) { note(key, since: call) }
  }

  /// Notes a write of a key if there was none since a call began. Under the lock of the key's shard: of
  /// two that overlap, the second finds the first's note.
  private func note(_ key: Key, since call: CallTracker<Key>.Call) -> Bool {
    guard call.isUndisturbed else { return false }
    calls.note(key)
    return true
  }

  func renew(
    _ old: LoadedValue<Value>, of key: Key, _ attributes: EntryAttributes?,
    since call: CallTracker<Key>.Call
  ) throws {
    guard let attributes else {
      tier.remove(key) { note(key, since: call) }
      return changes.note(key)
    }
    var place = try place(of: attributes)
    place.origin.tags = old.tags
    insert(old.value, key, place) { note(key, since: call) }
  }

  func write(_ value: Value?, for key: Key, _ attributes: EntryAttributes) throws -> Bool {
    // Checked first: a rejected write leaves the old value, and computations of the key continue.
    let place = try place(of: attributes)
    try requireNoChange(of: key)
    func noted() -> Bool {
      calls.note(key)
      return true
    }
    if let value { return insert(value, key, place, if: noted) }
    let existed = tier.validValue(key) != nil
    tier.remove(key, if: noted)
    changes.note(key)
    return existed
  }

  func removeAll() { calls.clearing { clearMemory() } }

  func removeAll(tagged tag: String) throws {
    let hash = try Tag.memoryHash(of: tag, during: "removeAll")
    calls.clearing {
      tier.removeAll(tagged: hash)
      changes.note(nil)
    }
  }

  func sync() {}

  private struct Place {
    var origin: TierOrigin
    var expires: Int64
  }

  /// Returns the origin and the expiration time of a new value with these attributes.
  private func place(of attributes: EntryAttributes) throws -> Place {
    if attributes.isPinned || attributes.isAbsent {
      throw StoreError.unsupported(
        "set",
        "A cache in memory only has no pinned and no negative entries. Create it with a store.")
    }
    let expires = try attributes.expiration.deadline(now: tier.now)
    let version = versions.add(1, ordering: .relaxed).newValue
    var origin = TierOrigin(readVersion: 0, commitVersion: version, storeHash: 0, table: nil)
    origin.lifetime = expires == EntryHeader.never ? 0 : attributes.expiration.slidingLifetime
    origin.computeTime = attributes.computeTime
    origin.tags = try Tag.memoryHashes(of: attributes.tags)
    return Place(origin: origin, expires: expires)
  }

  /// Inserts a value if `mayInsert`, called under the lock of the key's shard, returns `true`.
  @discardableResult
  private func insert(
    _ value: Value, _ key: Key, _ place: Place, if mayInsert: () -> Bool
  ) -> Bool {
    var isInserted = false
    tier.insert(
      value, forKey: key, from: place.origin, expires: place.expires,
      cost: context.cost(of: value, bytes: MemoryLayout<Value>.size)
    ) {
      isInserted = mayInsert()
      return isInserted
    }
    if isInserted { changes.note(key) }
    return isInserted
  }

  // MARK: Changes

  /// The value of a key before a change.
  private struct OldValue {
    var value: Value?
    var version = EntryVersion.absent
    var expires = EntryHeader.never
    var lifetime: Int64 = 0
    var tags: [UInt64] = []
  }

  func versionedValue(_ key: Key) -> VersionedValue<Value> {
    let old = read(key)
    return VersionedValue(value: old.value, version: old.version)
  }

  func write(_ write: ConditionalWrite<Value>, _ key: Key) throws -> Bool {
    try requireNoChange(of: key)
    return try repeating(key) { old in
      switch write {
      case .set(let value, let attributes, let version):
        guard old.version == version else { return nil }
        return (value, try place(of: attributes))
      case .remove(let version):
        guard old.version == version, old.value != nil else { return nil }
        return (nil, try place(of: EntryAttributes()))
      case .renew(let expiration):
        let place = try place(replacing: old, expiration)
        return old.value.map { ($0, place) }
      }
    }
  }

  func change(_ change: KeyChange<Value>, _ key: Key) throws -> KeyChange<Value>.Outcome {
    try requireNoChange(of: key)
    let thread = StoreCore.callingThread
    var outcome = KeyChange<Value>.Outcome.unchanged
    _ = try repeating(key) { old in
      changing.withLock { $0[thread, default: []].append(key) }
      changers.add(1, ordering: .relaxed)
      defer {
        changing.withLock { changing in
          _ = changing[thread]?.popLast()
          if changing[thread]?.isEmpty == true { changing[thread] = nil }
        }
        changers.subtract(1, ordering: .relaxed)
      }
      outcome = try change.body { old.value.map { ($0, old.expires) } }
      switch outcome {
      case .unchanged: return nil
      case .removed: return (nil, try place(of: EntryAttributes()))
      case .stored(let value, let expiration):
        return (value, try place(replacing: old, expiration))
      }
    }
    return outcome
  }

  /// Returns the place of a value that keeps the tags of the old one, and without an `expiration` its
  /// expiration.
  private func place(replacing old: OldValue, _ expiration: Expiration?) throws -> Place {
    var place = try place(of: EntryAttributes(expiration ?? .never))
    place.origin.tags = old.tags
    guard expiration == nil else { return place }
    place.origin.lifetime = old.lifetime
    place.expires =
      old.lifetime == 0 ? old.expires : EntryHeader.deadline(of: old.lifetime, from: tier.now)
    return place
  }

  private func read(_ key: Key) -> OldValue {
    let found: OldValue?? = tier.withEntry(key) { entry, _ in
      guard entry.expires == EntryHeader.never || entry.expires > tier.now else { return nil }
      return OldValue(
        value: entry.value, version: EntryVersion(commitVersion: entry.commitVersion),
        expires: entry.expires, lifetime: entry.lifetime, tags: entry.tags)
    }
    return (found ?? nil) ?? OldValue()
  }

  /// Repeats a change until no write of the key came between its read and its write.
  ///
  /// - Parameter decide: Returns the new value, `nil` as the value to remove the key, or `nil` to
  ///   change nothing.
  /// - Returns: Whether the key was changed.
  private func repeating(
    _ key: Key, _ decide: (OldValue) throws -> (value: Value?, place: Place)?
  ) throws -> Bool {
    while true {
      let call = calls.begin(key)
      guard let new = try decide(read(key)) else { return false }
      var isUndisturbed = false
      func mayChange() -> Bool {
        isUndisturbed = note(key, since: call)
        return isUndisturbed
      }
      if let value = new.value {
        insert(value, key, new.place, if: mayChange)
      } else {
        tier.remove(key, if: mayChange)
        if isUndisturbed { changes.note(key) }
      }
      if isUndisturbed { return true }
    }
  }

  /// Throws for a write by the closure of a change of the same key, which would never end.
  private func requireNoChange(of key: Key) throws {
    guard changers.load(ordering: .relaxed) > 0,
      // By `==`, as the counts of calls: texts that are equal and have other bytes count as well.
      changing.withLock({ $0[StoreCore.callingThread]?.contains(key) == true })
    else { return }
    throw StoreError(
      .insideTransaction, during: "write",
      "The closure of a change writes its own key. Return the new value from the closure. Nothing "
        + "was written.")
  }
}
