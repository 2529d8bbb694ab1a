// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The content to write for one key.
package struct EntryContent: Sendable {
  package let codec: UInt16
  package let payload: [UInt8]
  package let expires: Int64
  /// The lifetime of a sliding expiration in milliseconds, or zero.
  package let lifetime: Int64
  /// The time in milliseconds for which the entry is kept after its expiration, for a refresh.
  let kept: Int64
  /// The time in milliseconds that the computation of the value took, or zero.
  package let computeTime: UInt32
  /// The bytes of the tags, each once.
  private let tags: [[UInt8]]
  /// The hashes of the tags, if they are those of a stored entry.
  private let keptTags: [UInt64]
  let isPinned: Bool
  package let isAbsent: Bool
  /// The version that a remote server has for the value, or zero.
  package let remoteVersion: UInt64
  /// The value of `EntryHeader.contentHash`, computed before the writer lock is acquired.
  let contentHash: UInt64

  /// Creates the content for a key and computes its hash.
  package init(
    key: EncodedKey, codec: UInt16, payload: [UInt8], expires: Int64
  ) {
    lifetime = 0
    kept = 0
    computeTime = 0
    tags = []
    keptTags = []
    isPinned = false
    isAbsent = false
    remoteVersion = 0
    self.codec = codec
    self.payload = payload
    self.expires = expires
    self.contentHash = EntryHeader.contentHash(key: key.bytes, payload: payload)
  }

  /// Creates the content for a key that is written at `now`, and computes its hash.
  ///
  /// - Throws: ``StoreError/Code/invalidOption`` if an entry cannot have the attributes.
  @inline(__always)
  package init(
    key: EncodedKey, codec: UInt16, payload: [UInt8], _ attributes: consuming EntryAttributes,
    now: Int64
  ) throws(StoreError) {
    expires = try attributes.expiration.deadline(now: now)
    tags = try Tag.bytes(of: attributes.tags)
    keptTags = []
    isPinned = attributes.isPinned
    isAbsent = attributes.isAbsent
    remoteVersion = attributes.remoteVersion
    // An entry that would slide beyond the end of time never expires.
    lifetime = expires == EntryHeader.never ? 0 : attributes.expiration.slidingLifetime
    let isRefreshed = expires != EntryHeader.never && lifetime == 0
    kept = isRefreshed ? attributes.kept : 0
    computeTime = isRefreshed ? attributes.computeTime : 0
    self.codec = codec
    self.payload = payload
    self.contentHash = EntryHeader.contentHash(key: key.bytes, payload: payload)
  }

  /// Creates the content that replaces a stored value and keeps its tags and whether it is pinned.
  ///
  /// - Parameter expiration: The new expiration, or `nil` to keep that of the value.
  package init(
    key: EncodedKey, codec: UInt16, payload: [UInt8], replacing old: StoredValue,
    expiration: Expiration? = nil, now: Int64
  ) throws(StoreError) {
    // A write is a use, which begins a new sliding lifetime.
    var deadline =
      old.lifetime == 0 ? old.expires : EntryHeader.deadline(of: old.lifetime, from: now)
    if let expiration { deadline = try expiration.deadline(now: now) }
    self.init(
      key, (codec, payload), replacing: old,
      (deadline, expiration?.slidingLifetime ?? old.lifetime), (old.kept, old.computeTime))
  }

  /// Creates the content of a stored value that has been found to be valid for longer.
  package init(
    renewing old: StoredValue, forKey key: EncodedKey, _ attributes: EntryAttributes, now: Int64
  ) throws(StoreError) {
    let expiration = attributes.expiration
    self.init(
      key, (old.codec, old.payload), replacing: old,
      (try expiration.deadline(now: now), expiration.slidingLifetime),
      (attributes.kept, attributes.computeTime))
  }

  /// Creates the content of a stored value that a remote server still has.
  package init(verifying old: StoredValue, forKey key: EncodedKey, isAbsent: Bool, until: Int64) {
    self.init(
      key, (old.codec, old.payload), replacing: old, (until, 0), (old.kept, old.computeTime),
      (isAbsent, old.remoteVersion))
  }

  private init(
    _ key: EncodedKey, _ value: (codec: UInt16, payload: [UInt8]), replacing old: StoredValue,
    _ life: (expires: Int64, lifetime: Int64), _ refresh: (kept: Int64, computeTime: UInt32),
    _ remote: (isAbsent: Bool, version: UInt64) = (false, 0)
  ) {
    expires = life.expires
    lifetime = life.expires == EntryHeader.never ? 0 : life.lifetime
    let isRefreshed = life.expires != EntryHeader.never && lifetime == 0
    kept = isRefreshed ? refresh.kept : 0
    computeTime = isRefreshed ? refresh.computeTime : 0
    tags = []
    keptTags = old.tags
    isPinned = old.isPinned
    isAbsent = remote.isAbsent
    remoteVersion = remote.version
    codec = value.codec
    payload = value.payload
    contentHash = EntryHeader.contentHash(key: key.bytes, payload: value.payload)
  }

  var tagCount: Int { tags.count + keptTags.count }

  /// Whether codec, payload and expiration are all of it.
  var isPlain: Bool {
    lifetime == 0 && kept == 0 && computeTime == 0 && tagCount == 0 && !isPinned && !isAbsent
      && remoteVersion == 0
  }

  /// The bytes that the entry counts against the budget in addition to key and payload.
  @inline(__always)
  package var overhead: Int {
    EntryHeader.size + (lifetime == 0 ? 0 : 8) + (tagCount == 0 ? 0 : 8 + 8 * tagCount)
      + (kept == 0 && computeTime == 0 ? 0 : 16) + (remoteVersion == 0 ? 0 : 8)
  }

  /// Returns the hashes of the tags in a generation.
  package func tagHashes(in generation: Generation) -> [UInt64] {
    tags.isEmpty ? keptTags : tags.map { Tag.hash($0, secret: generation.meta.secret) }
  }
}
