// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The flags of an entry, and the properties that have them: see `EntryFormat.swift`.

extension EntryHeader {
  // Computed: a stored static property would be initialised lazily, at a cost for each read.
  struct Flags: OptionSet, Hashable {
    let rawValue: UInt8
    @inline(__always) init(rawValue: UInt8) { self.rawValue = rawValue }
    @inline(__always) static var chunked: Flags { Flags(rawValue: 1) }
    @inline(__always) static var sliding: Flags { Flags(rawValue: 2) }
    @inline(__always) static var pinned: Flags { Flags(rawValue: 4) }
    @inline(__always) static var absent: Flags { Flags(rawValue: 8) }
    @inline(__always) static var tagged: Flags { Flags(rawValue: 16) }
    @inline(__always) static var remote: Flags { Flags(rawValue: 32) }
    @inline(__always) static var kept: Flags { Flags(rawValue: 64) }
    /// The flags of entries with an extension.
    @inline(__always) static var extending: UInt8 { 2 | 16 | 32 | 64 }
    /// The flags that this version does not know.
    @inline(__always) static var unknown: UInt8 { 0b1000_0000 }
  }

  /// The properties of an entry that most entries do not have.
  package struct Traits: Sendable {
    /// The lifetime of a sliding expiration in milliseconds, or zero.
    package var lifetime: Int64 = 0
    package var isPinned = false
    package var isAbsent = false
    var kept: Int64 = 0
    var computeTime: UInt32 = 0
    var tagCount = 0
    var tagOrder: UInt32 = 0
    /// Whether the entry has a version of a remote server.
    var isRemote = false

    /// Creates the traits of an entry that was read, without the version of a remote server.
    package init(_ header: EntryHeader) {
      self.init(
        lifetime: header.lifetime, isPinned: header.isPinned, isAbsent: header.isAbsent,
        tagCount: header.tagCount, tagOrder: header.tagOrder)
      kept = header.kept
      computeTime = header.computeTime
    }

    /// Whether the entry has been computed to be refreshed.
    var isKept: Bool { kept != 0 || computeTime != 0 }

    /// Creates the traits of an entry that is written.
    init(_ content: EntryContent, tagOrder: UInt32) {
      self.init(
        lifetime: content.lifetime, isPinned: content.isPinned, isAbsent: content.isAbsent,
        tagCount: content.tagCount, tagOrder: tagOrder)
      kept = content.kept
      computeTime = content.computeTime
      isRemote = content.remoteVersion != 0
    }

    package init(
      lifetime: Int64 = 0, isPinned: Bool = false, isAbsent: Bool = false, tagCount: Int = 0,
      tagOrder: UInt32 = 0
    ) {
      self.lifetime = lifetime
      self.isPinned = isPinned
      self.isAbsent = isAbsent
      self.tagCount = tagCount
      self.tagOrder = tagOrder
    }
  }
}
