// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine
import LarderSystem
import LarderTesting

// ONE CASE OF DAMAGE
//
// A case is a number; with the seed it gives the template, the file, what is done to it and where.
// Damage works on the bytes in memory, before a copy of the store is written anywhere, so it costs
// nothing and is the same in every process: the one that opens the store, and the parent, which
// describes the damage when the other has died of it.
//
// Most damage is to data.mdb, because most of a store is; the other files have their share, and one
// case in twelve has two. In three cases of four, the files of an undamaged data file are matched
// to the copy (its change time is a new one), so that openers that trust it are tested as well as
// those that verify. A damaged data file is never matched: no process can set a change time.

/// The damage to a store's files.
struct DamagePlan: Sendable {
  let seed: UInt64
  let number: Int
  let template: DamageTemplate
  /// A sentence for people: kind, file, offset.
  private(set) var description: String
  private(set) var allowance: PermittedAnomalies = []
  private(set) var foreign: Int?
  private(set) var files: DamageFiles
  /// The replacements of files, by path.
  private(set) var strangers: [String: ReplacementKind] = [:]
  /// Whether change times in shared.table and state are made to fit the copy of data.mdb.
  private(set) var isTrusted = false

  enum ReplacementKind: Sendable { case nothing, directory, link, pipe }

  /// The sound stores, by template: as they were left, and half-way.
  struct Catalog: Sendable {
    let newest: [DamageFiles]
    let older: [DamageFiles]

    init(below path: String) throws {
      newest = try DamageTemplate.all.map { try DamageFiles(of: "\(path)/t\($0.number)") }
      older = try DamageTemplate.all.map { try DamageFiles(of: "\(path)/t\($0.number).older") }
    }
  }

  init(seed: UInt64, number: Int, catalog: Catalog) {
    self.seed = seed
    self.number = number
    var random = Seed(seed).generator(stream: 1 << 32 + UInt64(number))
    template = DamageTemplate.all[Int.random(in: 0..<DamageTemplate.all.count, using: &random)]
    files = catalog.newest[template.number]
    description = ""
    let count = random.chance(8) ? 2 : 1
    for _ in 0..<count {
      let place = choosePlace(&random)
      // With another file, what tells that the system did not go down may be lost: the log counts then.
      if place.contains("/log-") || place.hasSuffix("/synced"), count == 2 {
        allowance.insert(.older)
      }
      let text = damage(place, catalog, &random)
      description += (description.isEmpty ? "" : "; ") + "\(place): \(text)"
    }
    if files.contents[data] == catalog.newest[template.number].contents[data] {
      isTrusted = random.chance(75)
    }
  }

  // MARK: Places

  private var generation: String { "\(template.root)/g-\(template.generation)" }
  private var data: String { generation + "/data.mdb" }

  private func choosePlace(_ random: inout SeededRandom) -> String {
    switch Int.random(in: 0..<100, using: &random) {
    case ..<48: data
    case ..<65: generation + "/shared.table"
    case ..<68: logFiles.randomElement(using: &random) ?? generation + "/shared.table"
    case ..<76: generation + "/state"
    case ..<86: generation + "/lock.mdb"
    case ..<89: generation + "/presence"
    case ..<95: template.root + "/CURRENT"
    case ..<98: template.root + "/leases"
    default: template.root + "/gate"
    }
  }

  /// The files of the redo log and of the checkpoints, in order; none in a cache.
  private var logFiles: [String] {
    files.contents.keys.filter { $0.contains("/log-") || $0.hasSuffix("/synced") }.sorted()
  }

  // MARK: Kinds

  private mutating func damage(
    _ place: String, _ catalog: Catalog, _ random: inout SeededRandom
  ) -> String {
    let name = String(place.split(separator: "/").last!)
    let roll = Int.random(in: 0..<100, using: &random)
    switch roll {
    case ..<4: return replace(place, &random)
    case ..<11: return swap(place, catalog, &random)
    case ..<45:
      var bytes = files.contents[place] ?? []
      defer { files.contents[place] = bytes }
      if let text = FieldMutator.damage(&bytes, of: name, &random) { return text }
      return DamageBytes.damage(&bytes, &random)
    case ..<50 where name == "data.mdb":
      var bytes = files.contents[place] ?? []
      defer { files.contents[place] = bytes }
      allowance.insert(.older)
      return DamageBytes.relabel(&bytes, &random)
    default:
      var bytes = files.contents[place] ?? []
      defer { files.contents[place] = bytes }
      return DamageBytes.damage(&bytes, &random)
    }
  }

  /// Something else in a file's place.
  private mutating func replace(_ place: String, _ random: inout SeededRandom) -> String {
    let stranger: ReplacementKind
    let text: String
    switch Int.random(in: 0..<6, using: &random) {
    case 0...2: (stranger, text) = (.nothing, "removed")
    case 3: (stranger, text) = (.directory, "a directory in its place")
    case 4: (stranger, text) = (.link, "a symbolic link to it in its place")
    default: (stranger, text) = (.pipe, "a named pipe in its place")
    }
    strangers[place] = stranger
    // Without a gate nothing can be agreed upon: neither kind of store has to open.
    if place.hasSuffix("/gate"), stranger != .nothing { allowance.insert(.refusal) }
    return text
  }

  /// The file of another store, or of the same one earlier.
  private mutating func swap(
    _ place: String, _ catalog: Catalog, _ random: inout SeededRandom
  ) -> String {
    let name = String(place.split(separator: "/").last!)
    let isData = name == "data.mdb"
    if random.chance(40) {
      files.contents[place] = catalog.older[template.number].contents[place]
      if isData { allowance.insert(.older) }
      return "as it was half-way"
    }
    let other = DamageTemplate.all.filter { $0.number != template.number }
      .randomElement(using: &random)!
    let theirs = catalog.newest[other.number].contents.first { $0.key.hasSuffix("/" + name) }
    files.contents[place] = theirs?.value
    if isData {
      allowance.insert(.foreign)
      foreign = other.number
      // A store of the other kind is not opened as one of this.
      if other.durability != template.durability { allowance.insert(.refusal) }
    }
    return "that of store \(other.number)"
  }

  // MARK: Applying

  /// Writes the damaged store into a fresh directory.
  func apply(at path: String) throws {
    try files.write(to: path)
    if isTrusted { try matchStateToData(path) }
    try matchPageCache(path)
    for (place, stranger) in strangers {
      let target = path + place
      switch stranger {
      case .nothing: TestFiles.removeAll(target)
      case .directory:
        TestFiles.removeAll(target)
        try TestFiles.makeDirectory(target)
      case .link:
        if !TestFiles.exists(target) { continue }
        try TestFiles.move(target, to: target + ".moved")
        try TestFiles.makeSymbolicLink(target, to: target + ".moved")
      case .pipe:
        TestFiles.removeAll(target)
        try DamageBytes.makePipe(target)
      }
    }
  }

  /// Makes shared.table and state speak of the page cache of the files that were written here, where they are whole:
  /// as those of the template's last process, not as a copy of them.
  private func matchPageCache(_ path: String) throws {
    guard let data = try? OwnedFile(path: path + data, writable: false) else { return }
    let pageCache = PageCacheIdentity(ofDescriptor: data.descriptor)
    var changed = try FileSystem.status(of: path + generation + "/state")?.changed ?? 0
    if var state = try? StoreState.read(from: path + generation + "/state"),
      state.pageCache != .none
    {
      state.pageCache = pageCache
      changed = try state.write(to: path + generation + "/state", synchronous: false)
    }
    guard let file = try? OwnedFile(path: path + generation + "/shared.table"),
      let size = try? file.status.size, size >= SharedTableShape.small.fileSize
    else { return }
    var words: [UInt8] = []
    for word in [pageCache.mount, pageCache.fileSystem, changed] {
      words.append(littleEndian: word)
    }
    try file.write(words, at: SharedTableLayout.pageCacheOffset)
  }

  /// Makes shared.table and state speak of the data file as it is now, where they are whole.
  private func matchStateToData(_ path: String) throws {
    guard let changed = try FileSystem.status(of: path + data)?.changed else { return }
    if let file = try? OwnedFile(path: path + generation + "/shared.table"),
      let size = try? file.status.size, size >= SharedTableShape.small.fileSize
    {
      var word: [UInt8] = []
      word.append(littleEndian: changed)
      try file.write(word, at: SharedTableLayout.dataChanged)
    }
    if var state = try StoreState.read(from: path + generation + "/state"), state.dataChanged != 0 {
      state.dataChanged = changed
      try state.write(to: path + generation + "/state", synchronous: false)
    }
  }
}
#endif
