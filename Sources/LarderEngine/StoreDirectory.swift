// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem

// THE DIRECTORY OF A STORE
//
//     <path>/                  mode 0700, owned by the user
//       v1/                    the root of a `.cache` store of format 1; the root of a durable or
//                              relaxed store is <path> itself
//         gate                 flock'ed around every open, close and creation; never deleted
//         CURRENT              "larder 1 g-<number> <checksum>\n"; replaced by rename
//         leases               byte-range locks, one byte a key's hash
//         g-<number>/          a generation
//           data.mdb lock.mdb  LMDB
//           shared.table       SharedTableLayout.swift
//           state              StoreState.swift
//           synced             of a relaxed store: SyncRecord.swift
//           presence           byte 0: read-locked by every process that has it open;
//                              1,000 + n: write-locked by the process in slot n of the table;
//                              2^40 + pid: write-locked by the process itself; of a relaxed
//                              store, 2: by who brings it to the disk, 16 + n: by who writes in
//                              lane n of `synced`
//           set-aside          a repair has read this generation: keep it when it is left
//       damaged-g-<number>/    what was kept of a generation that was repaired
//
// Files of a live generation are never replaced, truncated or removed one by one. A generation that
// cannot be used any more is condemned and left; a new one is built beside it, and CURRENT is
// renamed to point at it.

/// The root directory of a store: where its files are.
package struct StoreDirectory: Sendable, Hashable {
  /// The directory the user named, made absolute.
  package let path: String
  /// Where `gate` and `CURRENT` are.
  package let root: String

  package var gate: String { root + "/gate" }
  package var current: String { root + "/CURRENT" }
  package var leases: String { root + "/leases" }
  package func generation(_ number: UInt64) -> String { root + "/g-\(number)" }
  /// Whether a generation, once it is left, is to be kept and not removed.
  static let setAsideMark = "set-aside"

  package static let formatVersion = 1

  package init(path: String, root: String) {
    self.path = path
    self.root = root
  }

  /// The default store: `$XDG_CACHE_HOME/larder`, else `~/.cache/larder`; the caches directory on
  /// Apple systems.
  package static var defaultPath: String {
    if let cache = FileSystem.environment("XDG_CACHE_HOME"), cache.hasPrefix("/") {
      return cache + "/larder"
    }
    let home = FileSystem.environment("HOME") ?? "/root"
    #if canImport(Darwin)
      return home + "/Library/Caches/larder"
    #else
      return home + "/.cache/larder"
    #endif
  }

  /// The default store of objects: `$XDG_DATA_HOME/larder/objects`, else
  /// `~/.local/share/larder/objects`; the application support directory on Apple systems.
  package static var defaultObjectPath: String {
    if let data = FileSystem.environment("XDG_DATA_HOME"), data.hasPrefix("/") {
      return data + "/larder/objects"
    }
    let home = FileSystem.environment("HOME") ?? "/root"
    #if canImport(Darwin)
      return home + "/Library/Application Support/larder/objects"
    #else
      return home + "/.local/share/larder/objects"
    #endif
  }

  private static func absolute(_ path: String) throws(StoreError) -> String {
    guard var result = FileSystem.absolute(path) else {
      throw refuse(
        path,
        "The working directory was removed, or its path is no UTF-8. Name the store by its absolute "
          + "path.")
    }
    while result.count > 1, result.hasSuffix("/") { result.removeLast() }
    return result
  }

  private static func refuse(_ path: String, _ message: String) -> StoreError {
    StoreError(.directory, during: "open", path: path, message)
  }

  /// Finds or creates the directory, and checks that it is safe to use.
  package static func prepare(
    _ path: String, durability: Durability
  ) throws(StoreError) -> StoreDirectory {
    guard !path.isEmpty, !path.utf8.contains(0) else {
      throw StoreError(.directory, during: "open", path: path, "The path of a store is empty.")
    }
    let path = try absolute(path)
    do throws(SystemError) {
      if try FileSystem.status(of: path, followingLinks: false) == nil {
        try FileSystem.makeDirectories(path)
      }
    } catch {
      throw cannotCreate(path, error)
    }
    try check(path)
    if let name = FileSystem.refusedFileSystem(below: path) {
      throw StoreError(
        .fileSystem, during: "open", path: path,
        "The directory is on \(name), which does not keep several processes coherent. Choose one on "
          + "a local disk or in memory.")
    }
    // Beside a store it is a stray file; without one, somebody's data.
    if exists(path + "/data.mdb"), try findDamaged(path) == nil {
      throw refuse(path, "It holds an LMDB environment (data.mdb). Name another directory.")
    }
    let versioned = path + "/v\(formatVersion)"
    switch durability {
    case .durable, .relaxed:
      if exists(versioned + "/CURRENT") {
        throw mismatch(path, wanted: durability, found: .cache)
      }
      return StoreDirectory(path: path, root: path)
    case .cache:
      let directory = StoreDirectory(path: path, root: path)
      if exists(directory.current) {
        throw mismatch(path, wanted: .cache, found: directory.keptDurability)
      }
      do throws(SystemError) {
        if try FileSystem.status(of: versioned, followingLinks: false) == nil {
          try FileSystem.makeDirectory(versioned)
        }
      } catch {
        throw cannotCreate(versioned, error)
      }
      try check(versioned)
      return StoreDirectory(path: path, root: versioned)
    }
  }

  /// Of which of the two kinds a store is whose root this is and that is no cache.
  ///
  /// A guess if its files are damaged; whoever opens it with the wrong one is told the right one.
  private var keptDurability: Durability {
    let existing = (try? CurrentFile.generations(in: self)) ?? []
    guard let number = ((try? CurrentFile.read(in: self)) ?? nil) ?? existing.last else {
      return .durable
    }
    let state = (try? StoreState.read(from: generation(number) + "/state")) ?? nil
    if let known = state?.durability, known != .cache { return known }
    return StoreDirectory.exists(generation(number) + "/" + SyncFile.name) ? .relaxed : .durable
  }

  /// Where an existing store of any kind is, and of which kind; `nil` when there is none.
  package static func find(_ path: String) -> (StoreDirectory, Durability)? {
    guard let path = try? absolute(path) else { return nil }
    let plain = StoreDirectory(path: path, root: path)
    if exists(plain.current) { return (plain, plain.keptDurability) }
    let versioned = path + "/v\(formatVersion)"
    if exists(versioned + "/CURRENT") {
      return (StoreDirectory(path: path, root: versioned), .cache)
    }
    return nil
  }

  /// Where a store is that may have lost its `CURRENT`: its generations tell.
  ///
  /// - Throws: When this user may not look: that does not mean that there is none.
  static func findDamaged(_ path: String) throws(StoreError) -> (StoreDirectory, Durability)? {
    let path = try absolute(path)
    if let found = find(path) { return found }
    try refuseHidden(path)
    for root in [path, path + "/v\(formatVersion)"] {
      let directory = StoreDirectory(path: path, root: root)
      if (try? CurrentFile.generations(in: directory))?.isEmpty == false {
        return (directory, root == path ? directory.keptDurability : .cache)
      }
    }
    return nil
  }

  private static func refuseHidden(_ path: String) throws(StoreError) {
    for place in [path, path + "/v\(formatVersion)"] {
      do throws(SystemError) { _ = try FileSystem.status(of: place + "/CURRENT") } catch {
        guard error.saysForbidden else { continue }
        try check(path)
        throw hidden(place, error)
      }
    }
  }

  /// Says whose directory it is that keeps `path` from being looked at.
  private static func hidden(_ path: String, _ error: SystemError) -> StoreError {
    var whose = ""
    var place = path
    while let slash = place.lastIndex(of: "/"), slash > place.startIndex {
      place = String(place[..<slash])
      guard let status = try? FileSystem.status(of: place) else { continue }
      if status.owner != FileSystem.userID {
        whose = " \(place) belongs to user \(status.owner), not to you (\(FileSystem.userID))."
      }
      break
    }
    return StoreError(
      .directory, during: "open", path: path,
      "The directory cannot be looked at (\(error)).\(whose) Use a directory of your own.",
      errorNumber: error.errno)
  }

  /// Gives a generation that is not in force a name under which it stays.
  ///
  /// - Returns: The new path.
  func setAside(_ number: UInt64) throws(SystemError) -> String {
    var target = root + "/damaged-g-\(number)"
    var count = 1
    while StoreDirectory.exists(target) {
      count += 1
      target = root + "/damaged-g-\(number)-\(count)"
    }
    try FileSystem.rename(generation(number), to: target)
    try FileSystem.synchronizeDirectory(root)
    return target
  }

  static func exists(_ path: String) -> Bool {
    ((try? FileSystem.status(of: path)) ?? nil) != nil
  }

  static func mismatch(
    _ path: String, wanted: Durability, found: Durability
  ) -> StoreError {
    StoreError(
      .durabilityMismatch, during: "open", path: path,
      "The store is .\(found) and was to be opened as .\(wanted). Open it as .\(found), or use "
        + "another directory.")
  }

  private static func cannotCreate(_ path: String, _ error: SystemError) -> StoreError {
    if error.isStorageFull { return StoreError(error, during: "open", path: path) }
    return StoreError(
      .directory, during: "open", path: path,
      "The directory cannot be created (\(error)). Create it with mode 0700, or choose another.",
      errorNumber: error.errno)
  }

  /// Checks that a directory is ours alone.
  private static func check(_ path: String) throws(StoreError) {
    let link: FileStatus?
    let target: FileStatus?
    do throws(SystemError) {
      link = try FileSystem.status(of: path, followingLinks: false)
      target = try FileSystem.status(of: path)
    } catch {
      throw hidden(path, error)
    }
    guard let link, let target else {
      throw refuse(path, "It is a link to something that does not exist. Remove the link.")
    }
    let user = FileSystem.userID
    if link.isSymbolicLink, link.owner != user {
      throw refuse(
        path,
        "It is a link that belongs to user \(link.owner), not to you. Name the directory "
          + "itself, or use one of your own.")
    }
    guard target.isDirectory else {
      throw refuse(path, "It is a file, not a directory. Name a directory, or remove the file.")
    }
    guard target.owner == user else {
      throw refuse(
        path,
        "It belongs to user \(target.owner), not to you (\(user)). Use a directory of your "
          + "own.")
    }
    guard target.mode & 0o022 == 0 else {
      throw refuse(
        path,
        "Other users may write to it. Run `chmod 700` on it: whoever can write to a store can "
          + "change what its users read.")
    }
    guard target.mode & 0o700 == 0o700 else {
      throw refuse(path, "You may not write to it. Run `chmod 700` on it, or choose another.")
    }
  }
}

/// `CURRENT`: which generation is in force.
package enum CurrentFile {
  /// The number `CURRENT` names; `nil` when it is missing or garbled.
  ///
  /// - Throws: When it cannot be read for another reason, such as a lack of descriptors: that must
  ///   never be taken for a store that is not there.
  package static func read(in directory: StoreDirectory) throws(SystemError) -> UInt64? {
    do throws(SystemError) {
      let file = try OwnedFile(path: directory.current, writable: false)
      return parse(try file.read(count: 256, at: 0))
    } catch {
      if error.saysNoSuchFile { return nil }
      throw error
    }
  }

  package static func parse(_ bytes: [UInt8]) -> UInt64? {
    let text = String(decoding: bytes, as: UTF8.self)
    guard text.hasSuffix("\n") else { return nil }
    let words = text.dropLast().split(separator: " ", omittingEmptySubsequences: false)
    guard
      words.count == 4, words[0] == "larder", words[1] == "1", words[2].hasPrefix("g-"),
      let number = UInt64(words[2].dropFirst(2)), isPossible(number),
      words[3] == checksum(number)
    else { return nil }
    return number
  }

  /// Whether a generation can have this number: labels have room for a million.
  static func isPossible(_ number: UInt64) -> Bool { number > 0 && number < 1 << 20 }

  package static func text(_ number: UInt64) -> String {
    "larder 1 g-\(number) \(checksum(number))\n"
  }

  private static func checksum(_ number: UInt64) -> String {
    String(XXH64.hash(Array("larder 1 g-\(number)".utf8)), radix: 16)
  }

  /// Puts a generation in force, for everybody at once.
  package static func write(
    _ number: UInt64, in directory: StoreDirectory, synchronous: Bool
  ) throws(SystemError) {
    let temporary = directory.current + ".tmp"
    let file = try OwnedFile(path: temporary, creation: .createIfMissing)
    try file.truncate(to: 0)
    try file.write(Array(text(number).utf8), at: 0)
    if synchronous { try file.synchronize() }
    // A directory in its place is the one thing a rename does not replace.
    if let status = try FileSystem.status(of: directory.current, followingLinks: false),
      status.isDirectory
    {
      FileSystem.removeTree(directory.current)
    }
    try FileSystem.rename(temporary, to: directory.current)
    if synchronous { try FileSystem.synchronizeDirectory(directory.root) }
  }

  /// The number of a generation's directory; `nil`: it is the name of something else.
  package static func generation(named name: String) -> UInt64? {
    guard name.hasPrefix("g-"), let number = UInt64(name.dropFirst(2)), name == "g-\(number)"
    else { return nil }
    return number
  }

  /// The numbers of the generation directories there are, in order.
  package static func generations(
    in directory: StoreDirectory
  ) throws(SystemError) -> [UInt64] {
    try FileSystem.names(in: directory.root).compactMap { generation(named: $0) }.sorted()
  }
}
