// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine
import LarderObjectEngine

/// The causes of the size of a store's files. Their bytes are the blocks that the files have on the
/// disk, each counted once.
struct SizeReport {
  /// A cause of size.
  struct Part {
    /// The word for JSON answers.
    let code: String
    /// The namespace, type, table, or file.
    var name: String?
    let title: String
    var bytes: Int
    /// Further numbers.
    var details: [(String, Int)] = []
    var action: String?
  }

  let path: String
  private(set) var parts: [Part] = []
  private(set) var readers: [ReaderLine] = []
  /// The bytes that a compaction would return to the disk.
  private(set) var compactionWin = 0
  var bytes: Int { parts.reduce(0) { $0 + $1.bytes } }

  init(_ store: SharedStore) throws {
    let core = store.core
    path = core.directory.path
    let (file, objects) = try core.withSnapshot("stat") { snapshot in
      (try core.fileParts(snapshot), try ObjectSizes(snapshot))
    }
    // Read later, so that it contains every namespace of the snapshot.
    let names = try Dictionary(
      uniqueKeysWithValues: core.namespaces().map {
        ($0.number, String(decoding: $0.record.name, as: UTF8.self))
      })
    addEntries(file, names)
    addObjects(file, objects)
    addTables(file)
    addFreePages(file)
    addOther(file)
    parts += Self.files(file)
    parts.removeAll { $0.bytes == 0 && $0.code != "other" }
    parts.sort { $0.bytes > $1.bytes }
  }

  // MARK: Entries

  private mutating func addEntries(_ file: FileParts, _ names: [UInt32: String]) {
    var content = file.invisible.bytes
    for (number, use) in file.namespaces {
      content += use.bytes
      let name = names[number] ?? ""
      parts.append(
        Part(
          code: "entries", name: name, title: Self.title(ofNamespace: name), bytes: use.bytes,
          details: [
            ("entries", use.entries), ("keyBytes", use.keyBytes), ("valueBytes", use.valueBytes),
            ("headerBytes", use.headerBytes),
          ], action: Self.action(forNamespace: name)))
    }
    parts.append(
      Part(
        code: "invisibleEntries", title: "expired, cleared or tagged entries, not removed yet",
        bytes: file.invisible.bytes, details: [("entries", file.invisible.entries)],
        action: "A process that writes to the store removes them within seconds."))
    let pages = (file.tables["entries"] ?? 0) + (file.tables["chunks"] ?? 0)
    parts.append(
      Part(
        code: "entryPages", title: "unused space and structure of the pages of entries",
        bytes: pages * file.pageSize - content, details: [("pages", pages)],
        action: "`larder advise` names namespaces whose values leave much of a page unused."))
  }

  /// Names a queue as the commands do.
  private static func title(ofNamespace name: String) -> String {
    for (prefix, title) in [("deque/", "queue"), ("deque-failed/", "failed elements of queue")]
    where name.hasPrefix(prefix) {
      return "\(title) \"\(name.dropFirst(prefix.count))\""
    }
    return name.isEmpty ? "entries without a namespace" : "entries of namespace \"\(name)\""
  }

  private static func action(forNamespace name: String) -> String {
    if name.hasPrefix("deque/") { return "Run more consumers of the queue (`larder queue run`)." }
    if name.hasPrefix("deque-failed/") {
      let queue = name.dropFirst("deque-failed/".count)
      return "Try them again (`larder queue retry \(queue)`) or remove them."
    }
    return name.isEmpty
      ? "Lower the budget: `larder budget --bytes SIZE`."
      : "Limit the namespace: `larder budget --namespace \(name) --bytes SIZE`."
  }

  // MARK: Objects

  private mutating func addObjects(_ file: FileParts, _ sizes: ObjectSizes) {
    var content = sizes.dropped.bytes
    for part in sizes.parts {
      content += part.use.bytes
      let isIndex = part.index != nil
      parts.append(
        Part(
          code: isIndex ? "index" : "objects",
          name: part.index.map { "\(part.type).\($0)" } ?? part.type,
          title: (part.index.map { "index \($0)" } ?? "objects") + " of \(part.type)",
          bytes: part.use.bytes, details: [(isIndex ? "keys" : "records", part.use.count)],
          action: isIndex
            ? "Remove the index from the type's declaration if no query uses it."
            : "Set a budget for the type, or delete objects."))
    }
    parts.append(
      Part(
        code: "droppedObjects", title: "records of dropped types and indexes, not removed yet",
        bytes: sizes.dropped.bytes, details: [("records", sizes.dropped.count)],
        action: "A process that has the store open removes them in steps."))
    let pages = ["objects", "ids", "indexes"].reduce(0) { $0 + (file.tables[$1] ?? 0) }
    parts.append(
      Part(
        code: "objectPages", title: "ids, unused space and structure of the pages of objects",
        bytes: pages * file.pageSize - content, details: [("pages", pages)],
        action: "None is needed: they follow from the objects."))
  }

  // MARK: Tables

  private mutating func addTables(_ file: FileParts) {
    let tables: [(name: String, code: String, title: String, action: String)] = [
      ("expiries", "expiryIndex", "index of expiration times", "None is needed."),
      ("tags", "tags", "removals by tag", "None is needed: they are forgotten after their sweep."),
      (
        "members", "namespaceIndexes", "indexes of limited namespaces",
        "Lift the limits of namespaces that need none: `larder budget --namespace NAME --bytes none`."
      ),
      (
        "changes", "changeLog", "change log",
        "None is needed: its size is fixed, and processes that watch changes chose it."
      ),
    ]
    for table in tables {
      parts.append(
        Part(
          code: table.code, title: table.title,
          bytes: (file.tables[table.name] ?? 0) * file.pageSize,
          details: [("pages", file.tables[table.name] ?? 0)], action: table.action))
    }
    parts.append(
      Part(
        code: "catalog", title: "catalog: totals, namespaces, types",
        bytes: (2 + file.mainPages) * file.pageSize, details: [("pages", 2 + file.mainPages)],
        action: "None is needed."))
    parts.append(
      Part(
        code: "freeList", title: "list of free pages", bytes: file.freeListPages * file.pageSize,
        details: [("pages", file.freeListPages)], action: "None is needed."))
  }

  // MARK: Free pages

  private mutating func addFreePages(_ file: FileParts) {
    let page = file.pageSize
    let reserved = max(file.fileBytes - file.pages * page, 0)
    // Pages in the middle of the file without blocks are free ones that were never written.
    let missing = max(max(file.fileBytes, file.pages * page) - file.allocatedBytes, 0)
    let kept = min(file.keptPages, file.freePages)
    let free = (file.freePages - kept) * page
    let absentFree = min(missing, free)
    let absentReserved = min(missing - absentFree, reserved)
    readers = file.readers.map { ReaderLine($0) }
    parts.append(
      Part(
        code: "freePages", title: "free pages", bytes: free - absentFree,
        details: [("pages", file.freePages - kept)],
        action: "Writes use them again. `larder compact` returns them to the disk."))
    parts.append(
      Part(
        code: "keptPages",
        title: "free pages kept by readers: "
          + readers.map { "process \($0.pid)" }.joined(separator: ", "),
        bytes: kept * page, details: [("pages", kept)],
        action: readers.first?.advice))
    parts.append(
      Part(
        code: "reserve", title: "blocks reserved at the end for writes",
        bytes: reserved - absentReserved,
        action: "None is needed: it is at most an eighth of the file, and at most 16 MiB."))
    compactionWin = free - absentFree + kept * page + reserved - absentReserved
  }

  /// Adds the difference to the blocks of the data file: rounding of the file system, and commits
  /// during the reading.
  private mutating func addOther(_ file: FileParts) {
    parts.append(Part(code: "other", title: "other", bytes: file.allocatedBytes - bytes))
  }
}
#endif
