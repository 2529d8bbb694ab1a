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
//         copying              flock'ed by a compaction while it writes g-<n>.copy
//         leases               byte-range locks, one byte a key's hash
//         locks                LockFileLayout.swift; made by the first use of a lock
//         rates                the same, by the first use of a limiter
//         g-<number>/          a generation
//           data.mdb lock.mdb  LMDB
//           shared.table       SharedTableLayout.swift
//           state              StoreState.swift
//           synced             of a relaxed store: CheckpointRecord.swift
//           presence           byte 0: read-locked by every process that has it open;
//                              1,000 + n: write-locked by the process in slot n of the table;
//                              2^40 + pid: write-locked by the process itself; of a relaxed
//                              store, 2: by its checkpointer, 16 + n: by the writer of
//                              lane n in `synced`
//           set-aside          a repair has read this generation: keep it when it is left
//         ns-<number>/         of a cache: a store for the processes of one PID namespace, made
//                              while those of another have this one open, removed by the next
//                              opener once no process has it open
//       damaged-g-<number>/    what was kept of a generation that was repaired
//
// Files of a live generation are never replaced, truncated or removed one by one. A generation that
// cannot be used any more is fenced and left; a new one is built next to it, and CURRENT is
// renamed to point at it.

/// The root directory of a store, which contains its files.
///
/// The store's own directory is held open (`HeldDirectory`): ``root`` and all paths derived from it
/// lead to the directory that was checked, even if an entry of its path is renamed. They are valid
/// for the lifetime of this value; errors show the real path.
package struct StoreDirectory: Sendable, Hashable {
  /// The directory the user named, made absolute.
  package let path: String
  /// The directory of `gate` and `CURRENT`: the path for system calls.
  package let root: String
  /// The path of ``root`` for messages.
  let realRoot: String
  private let held: HeldDirectory?

  package var gate: String { root + "/gate" }
  package var current: String { root + "/CURRENT" }
  package var leases: String { root + "/leases" }
  /// The lock file, which all PID namespaces share.
  package var locks: String { (isBeside ? outer : self).root + "/locks" }
  /// The lock file of limiters, which all PID namespaces share.
  package var rates: String { (isBeside ? outer : self).root + "/rates" }
  package func generation(_ number: UInt64) -> String { root + "/g-\(number)" }
  /// The mark of a generation that is quarantined, not removed, after processes leave it.
  package static let setAsideMark = "set-aside"

  package static let formatVersion = 1

  /// Creates a directory that is named by its path, for tools that only read.
  package init(path: String, root: String) {
    self.path = path
    self.root = root
    realRoot = root
    held = nil
  }

  /// Creates a directory that is held open.
  ///
  /// - Parameter below: The rest of the path of ``root``, empty or beginning with a slash.
  private init(_ held: HeldDirectory, below: String) {
    path = held.path
    root = held.reference + below
    realRoot = held.path + below
    self.held = held
  }

  /// Returns the root of the per-namespace store `name` in this directory.
  func inner(_ name: String) -> StoreDirectory {
    guard let held else { return StoreDirectory(path: path, root: root + "/" + name) }
    return StoreDirectory(held, below: String(realRoot.dropFirst(path.count)) + "/" + name)
  }

  /// The name of the directory of this PID namespace's store. The kernel uses the number again for
  /// a later namespace; while a process of this one has the store open, it cannot.
  static var besideName: String { besidePrefix + String(ProcessIdentity.pidNamespace) }
  static let besidePrefix = "ns-"

  /// Whether this is the root of a per-namespace store; ``outer`` is the root of the main store.
  var isBeside: Bool {
    realRoot.dropFirst(path.count).split(separator: "/").last?.hasPrefix(Self.besidePrefix) ?? false
  }
  var outer: StoreDirectory {
    let below = realRoot[..<realRoot.lastIndex(of: "/")!].dropFirst(path.count)
    guard let held else { return StoreDirectory(path: path, root: path + below) }
    return StoreDirectory(held, below: String(below))
  }

  /// Redirects all paths of this value to a directory that was prepared again after a deletion.
  func follow(_ fresh: StoreDirectory) {
    if let new = fresh.held { held?.follow(new) }
  }

  /// Returns the path of a generation for messages; it identifies the generation in this process.
  func realGeneration(_ number: UInt64) -> String { realRoot + "/g-\(number)" }

  package static func == (left: StoreDirectory, right: StoreDirectory) -> Bool {
    left.path == right.path && left.realRoot == right.realRoot
  }

  package func hash(into hasher: inout Hasher) { hasher.combine(realRoot) }

  /// The default store: `$XDG_CACHE_HOME/larder`, else `~/.cache/larder`; the caches directory on
  /// Apple systems.
  package static var defaultPath: String {
    FileSystem.cacheDirectory + "/larder"
  }

  /// The default store of objects: `$XDG_DATA_HOME/larder/objects`, else
  /// `~/.local/share/larder/objects`; the application support directory on Apple systems.
  package static var defaultObjectPath: String {
    FileSystem.dataDirectory + "/larder/objects"
  }

  private static func absolute(_ path: String) throws(StoreError) -> String {
    // What begins with a tilde and is not expanded was meant for a shell.
    if path.hasPrefix("~"), FileSystem.absolute(path)?.hasSuffix("/" + path) != false {
      throw refuse(
        path,
        "`~` is the home directory only as `~` or `~/…`, and needs the absolute path in HOME. Name the "
          + "store by its absolute path; a directory whose name begins with a tilde is `./~…`.")
    }
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
  ///
  /// - Parameter isWritten: Whether a missing directory is created, and one that cannot be written is refused.
  package static func prepare(
    _ path: String, durability: Durability, isWritten: Bool = true
  ) throws(StoreError) -> StoreDirectory {
    guard !path.isEmpty, !path.utf8.contains(0) else {
      throw StoreError(.directory, during: "open", path: path, "The path of a store is empty.")
    }
    let path = try absolute(path)
    let held = try hold(path, isCreating: isWritten)
    try check(path, held.status, isWritten: isWritten)
    if let name = FileSystem.refusedFileSystem(below: held.reference) {
      throw StoreError(
        .fileSystem, during: "open", path: path,
        "The directory is on \(name), which does not keep several processes coherent. Choose one on "
          + "a local disk or in memory.")
    }
    // Next to a store `data.mdb` is a stray file; without a store it is another program's data.
    if exists(held.reference + "/data.mdb"), try findDamaged(path) == nil {
      throw refuse(path, "It holds an LMDB environment (data.mdb). Name another directory.")
    }
    let kept = StoreDirectory(held, below: "")
    let cache = StoreDirectory(held, below: "/v\(formatVersion)")
    guard durability == .cache else {
      if exists(cache.current) { throw mismatch(path, wanted: durability, found: .cache) }
      return kept
    }
    if exists(kept.current) {
      throw mismatch(path, wanted: .cache, found: kept.keptDurability)
    }
    let status: FileStatus?
    do throws(SystemError) {
      if isWritten { try FileSystem.makeDirectory(cache.root) }
      status = try FileSystem.status(of: cache.root)
    } catch {
      throw cannotCreate(cache.realRoot, error)
    }
    try check(cache.realRoot, status, isWritten: isWritten)
    return cache
  }

  /// Opens the directory of a store and checks each directory on its path.
  private static func hold(_ path: String, isCreating: Bool) throws(StoreError) -> HeldDirectory {
    do throws(PathWalkError) {
      return try HeldDirectory(path, creating: isCreating)
    } catch {
      switch error {
      case .system(let error):
        if error.isPermissionDenied { throw hidden(path, error) }
        throw StoreError(error, during: "open", path: path)
      case .notCreated(let error):
        throw cannotCreate(path, error)
      case .danglingLink:
        throw refuse(path, "It is a link to something that does not exist. Remove the link.")
      case .foreignLink(let link, let owner):
        throw refuse(
          path,
          "\(link) is a link that belongs to user \(owner), not to you (\(FileSystem.userID)). Name "
            + "the directory itself, or use a directory of your own.")
      case .foreignParent(let parent, let owner):
        throw refuse(
          path,
          "\(parent) belongs to user \(owner), not to you (\(FileSystem.userID)): that user can "
            + "replace the store. Use a directory of your own, such as \(defaultPath).")
      case .writableParent(let parent):
        throw refuse(
          path,
          "Other users may write to \(parent), and can replace the store. Run `chmod go-w` on it, or "
            + "use a directory of your own, such as \(defaultPath).")
      }
    }
  }

  /// The durability of the durable or relaxed store with this root.
  ///
  /// A guess if its files are damaged; opening with the wrong durability reports the right one.
  private var keptDurability: Durability {
    let existing = (try? CurrentPointer.generations(in: self)) ?? []
    guard let number = ((try? CurrentPointer.read(in: self)) ?? nil) ?? existing.last else {
      return .durable
    }
    let state = (try? StoreState.read(from: generation(number) + "/state")) ?? nil
    if let known = state?.durability, known != .cache { return known }
    let files = generation(number)
    return StoreDirectory.exists(files + "/" + CheckpointFile.name)
      && !StoreDirectory.exists(files + "/" + LogSegments.name(0)) ? .relaxed : .durable
  }

  /// Finds an existing store of any durability.
  ///
  /// - Returns: Its directory and durability, or `nil` if there is none.
  package static func find(_ path: String) -> (StoreDirectory, Durability)? {
    guard let path = try? absolute(path) else { return nil }
    for (directory, isCache) in places(path) where exists(directory.current) {
      return (directory, isCache ? .cache : directory.keptDurability)
    }
    return nil
  }

  /// Returns the directories that a store of a path may have, of a store that survives system crashes
  /// and of a cache.
  private static func places(_ path: String) -> [(directory: StoreDirectory, isCache: Bool)] {
    let version = "/v\(formatVersion)"
    // A longer path has to be walked, as for an opening; the names below it take less than 200 bytes.
    if path.utf8.count > 3800, let held = try? HeldDirectory(path, creating: false) {
      return [
        (StoreDirectory(held, below: ""), false), (StoreDirectory(held, below: version), true),
      ]
    }
    return [
      (StoreDirectory(path: path, root: path), false),
      (StoreDirectory(path: path, root: path + version), true),
    ]
  }

  /// Finds a store that may have lost its `CURRENT`, by its generations.
  ///
  /// - Throws: `StoreError` if this user has no permission to search: a store may exist
  /// nevertheless.
  package static func findDamaged(_ path: String) throws(StoreError) -> (
    StoreDirectory, Durability
  )? {
    let path = try absolute(path)
    if let found = find(path) { return found }
    try refuseHidden(path)
    for (directory, isCache) in places(path)
    where (try? CurrentPointer.generations(in: directory))?.isEmpty == false {
      return (directory, isCache ? .cache : directory.keptDurability)
    }
    return nil
  }

  private static func refuseHidden(_ path: String) throws(StoreError) {
    for place in [path, path + "/v\(formatVersion)"] {
      do throws(SystemError) { _ = try FileSystem.status(of: place + "/CURRENT") } catch {
        guard error.isPermissionDenied else { continue }
        throw hidden(place, error)
      }
    }
  }

  /// Returns the error for a `path` that is not accessible; it names the directory's owner.
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

  /// Quarantines a generation that is not current.
  ///
  /// - Returns: The new path.
  package func quarantine(_ number: UInt64) throws(SystemError) -> String {
    var target = root + "/damaged-g-\(number)"
    var count = 1
    while StoreDirectory.exists(target) {
      count += 1
      target = root + "/damaged-g-\(number)-\(count)"
    }
    try FileSystem.rename(generation(number), to: target)
    try FileSystem.synchronizeDirectory(root)
    return HeldDirectory.realPath(target)
  }

  package static func exists(_ path: String) -> Bool {
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
      "The directory cannot be created (\(error)). "
        + (error.isReadOnly ? StoreError.readOnly : "Create it with mode 0700, or choose another."),
      errorNumber: error.errno)
  }

  /// Checks that only this user can write to a directory.
  ///
  /// - Parameter status: The status of the open directory, which has no name that could change.
  private static func check(
    _ path: String, _ status: FileStatus?, isWritten: Bool
  ) throws(StoreError) {
    guard let target = status else { throw refuse(path, "It was removed. Open the store again.") }
    let user = FileSystem.userID
    guard target.isDirectory else {
      throw refuse(path, "It is a file, not a directory. Name a directory, or remove the file.")
    }
    guard target.owner == user else {
      throw refuse(
        path,
        "It belongs to user \(target.owner), not to you (\(user)). "
          + (isWritten
            ? "Use a directory of your own."
            : "That user can change or cut its files while they are read. Run the command as that user, or "
              + "read a copy of your own (`larder copy`)."))
    }
    guard target.mode & 0o022 == 0 else {
      throw refuse(
        path,
        "Other users may write to it. Run `chmod 700` on it: a user with write permission can "
          + "change what the store's users read.")
    }
    let needed: UInt32 = isWritten ? 0o700 : 0o500
    guard target.mode & needed == needed else {
      throw refuse(
        path,
        "You may not \(isWritten ? "write to" : "read") it. Run `chmod 700` on it, or choose another."
      )
    }
  }
}
