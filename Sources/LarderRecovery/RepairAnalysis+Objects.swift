// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderLMDB
internal import LarderObjectEngine
internal import LarderSystem

// The analysis of objects: each record's checksum, the expected ids and index keys, and the
// counters.

extension RepairAnalysis {
  struct ObjectTally {
    var kept = 0
    var damaged = 0
    var bytes: UInt64 = 0
  }

  /// - Parameter chunks: Receives the ids of the chunks that belong to objects.
  func checkObjects(_ chunks: inout SetFingerprint) throws {
    let catalog = salvage.catalog
    for name in catalog.damaged { findings.add(.error, "catalog \(name)", "its record is damaged") }
    for number in catalog.lost.keys.sorted() {
      findings.add(.error, "type \(number)", "there are objects, but no record of the type")
    }
    let indexes = catalog.indexes
    var (ids, keys) = (SetFingerprint(), IndexContent())
    try salvage.forEachObject { found in
      for id in found.chunks?.ids ?? 0..<0 { chunks.add(id) }
      guard catalog.isLive(found.type) else { return }
      guard let object = found.object else {
        findings.add(.error, "object \(found.type)/\(found.sequence)", "it is damaged")
        objectTallies[found.type, default: ObjectTally()].damaged += 1
        return
      }
      objectTallies[found.type, default: ObjectTally()].kept += 1
      objectTallies[found.type]!.bytes += UInt64(object.header.cost)
      if let meta = salvage.meta {
        let hash = ObjectFormat.hash(type: object.type, id: object.id, meta: meta)
        let place = ObjectFormat.idKey(hash, meta)
        ids.add(StoreSalvage.idItem(at: place, object.type, object.sequence))
      }
      for key in object.keys where indexes.contains(key.index) {
        keys.add(key, of: object.sequence)
      }
    }
    let stored = try salvage.storedObjectKeys()
    if stored.ids != ids, salvage.meta != nil { disagree("ids", stored.ids.count, ids.count) }
    if stored.keys != keys { disagree("indexes", stored.keys.count, keys.count) }
    checkObjectBooks()
  }

  private func disagree(_ place: String, _ stored: Int, _ wanted: Int) {
    findings.add(
      .error, place, "there are \(stored) keys; the objects have \(wanted), not the same")
  }

  private func checkObjectBooks() {
    for (number, type) in salvage.catalog.types where salvage.catalog.isLive(number) {
      let tally = objectTallies[number] ?? ObjectTally()
      let books = salvage.catalog.books[number] ?? ObjectTypeCounters()
      if books.count != UInt64(tally.kept) || books.bytes != tally.bytes {
        findings.add(
          .error, "type \(type.name)",
          "its books say \(books.count) objects of \(books.bytes) bytes; readable are "
            + "\(tally.kept) of \(tally.bytes)")
      }
    }
  }

  /// Fills in the numbers of kept and lost objects, given the objects kept of each type.
  func count(objects kept: [UInt32: Int], in report: inout RepairReport) {
    let catalog = salvage.catalog
    let numbers = Set(catalog.types.keys.filter(catalog.isLive)).union(objectTallies.keys)
    report.types = numbers.map { number in
      let tally = objectTallies[number] ?? ObjectTally()
      let said = catalog.books[number].map { $0.count < 1 << 40 ? Int($0.count) : 0 }
      let all = report.isDiscarded ? tally.kept + tally.damaged : 0
      let missing = max(0, (said ?? 0) - (report.isDiscarded ? 0 : tally.kept))
      return RepairReport.ObjectType(
        name: catalog.name(of: number), kept: kept[number] ?? 0,
        lost: max(missing, all, tally.damaged), isRecovered: catalog.types[number] == nil)
    }.sorted { $0.name < $1.name }
    report.objectsKept = report.types.reduce(0) { $0 + $1.kept }
    report.objectsLost = report.types.reduce(0) { $0 + $1.lost }
  }

  var keptObjects: [UInt32: Int] { objectTallies.mapValues(\.kept) }

  /// Calls `body` with every object that belongs into the repaired store.
  func forEachKeptObject(_ body: (SalvagedObject) throws -> Void) throws {
    let catalog = salvage.catalog
    try salvage.forEachObject { found in
      guard let object = found.object, catalog.isLive(found.type) else { return }
      try body(object)
    }
  }

  var catalog: SalvagedCatalog { salvage.catalog }
}
