// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderCoding
import LarderEngine
import LarderLMDB
import LarderObjectEngine
import LarderObjects
import LarderSystem
import LarderTesting
import Testing

/// A type with a declared schema, as the macro `@Storable` declares it.
private struct Shipment: DeclaresSchema, Equatable {
  let id: Int
  var city: String
  var grams = 500
  var note: String?

  static let storedName = "Shipment"
  static let schema = ObjectSchema<Shipment>(
    [
      .field("id", \.id), .field("city", \.city), .field("grams", \.grams, default: 500),
      .field("note", \.note),
    ], indexes: [])

  init(_ id: Int, city: String? = nil, grams: Int? = nil, note: String? = nil) {
    self.id = id
    self.city = city ?? ["Oslo", "Rome"][id % 2]
    self.grams = grams ?? id * 10
    self.note = note
  }
}

/// The same type in a program without a schema, and with another field.
private struct PlainShipment: Storable, Equatable {
  let id: Int
  var city: String
  var grams: Int
  var note: String?
  var rush: Bool?
  static let storedName = Shipment.storedName
}

/// The next declaration: a field less, and one more.
private struct NextShipment: DeclaresSchema, Equatable {
  let id: Int
  var city: String
  var grams = 500
  var stamps = 3

  static let storedName = Shipment.storedName
  static let schema = ObjectSchema<NextShipment>(
    [
      .field("id", \.id), .field("city", \.city), .field("grams", \.grams, default: 500),
      .field("stamps", \.stamps, default: 3),
    ], indexes: [])

  init(from decoder: any Decoder) throws {
    let values = try decoder.container(keyedBy: CodingKeys.self)
    id = try values.decode(Int.self, forKey: .id)
    city = try values.decode(String.self, forKey: .city)
    grams = try values.decodeIfPresent(Int.self, forKey: .grams) ?? 500
    stamps = try values.decodeIfPresent(Int.self, forKey: .stamps) ?? 3
  }
}

@Suite(.timeLimit(.minutes(60))) struct ObjectLayoutTests {
  private static let names =
    (0..<30).map { "field\($0)" } + ["a", String(repeating: "n", count: 40)]

  private func value(_ random: inout SeededRandom) -> CBORValue {
    switch Int.random(in: 0..<9, using: &random) {
    case 0: .unsigned(random.next() >> UInt64.random(in: 0..<64, using: &random))
    case 1: .negative(random.next() >> UInt64.random(in: 0..<64, using: &random))
    case 2: .text(String(repeating: "é", count: Int.random(in: 0...200, using: &random)))
    case 3: .bytes(random.bytes(Int.random(in: 0...300, using: &random)))
    case 4: .boolean(true)
    case 5: .null
    case 6: .float(Double.random(in: -9...9, using: &random))
    case 7: .array([.unsigned(1), .map([.init(.text("x"), .text("y"))])])
    default: .tagged(1, .float(0.5))
    }
  }

  @Test func `An object of any fields is the same after it was stored with a layout`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    var packedCount = 0
    for round in 0..<5000 {
      let own = Self.names.filter { _ in Int.random(in: 0..<3, using: &random) > 0 }
      let names = own.filter { _ in Int.random(in: 0..<4, using: &random) > 0 }
      let scale = round % 100 == 0 ? 400 : 1
      var pairs = names.map { CBORValue.Pair(.text($0), value(&random)) }
      if scale > 1, !pairs.isEmpty {
        pairs[0].value = .bytes(random.bytes(scale * 1000))
      }
      let map = CBORValue.map(pairs).encoded
      var layouts = ObjectLayouts(["other"])
      _ = layouts.add(ObjectLayout(own))
      let bytes = try #require(map.withRawSpan { layouts.packed($0) }, "\(seed) \(round)")
      packedCount += 1
      #expect(bytes.withRawSpan { layouts.expanded($0) } == map, "\(seed) \(round)")
      for name in Self.names {
        let key = CBORValue.text(name).encoded
        let found = bytes.withRawSpan { FieldLocator(key, layouts).find(in: $0) }
        let expected = pairs.first { $0.key == .text(name) }?.value.encoded
        switch found {
        case .found(let range): #expect(Array(bytes[range]) == expected, "\(seed) \(round) \(name)")
        case .missing: #expect(expected == nil, "\(seed) \(round) \(name)")
        case .unclear: Issue.record("\(seed) \(round) \(name) is unclear")
        }
      }
    }
    #expect(packedCount == 5000)
  }

  @Test func `Only a plain map of fields of a layout is stored with it`() {
    let layouts = ObjectLayouts(["a", "b"])
    // Another field; a field twice; another order; a long head; trailing bytes; not a map.
    for bytes in [
      [0xA1, 0x61, 0x63, 1], [0xA2, 0x61, 0x61, 1, 0x61, 0x61, 2],
      [0xA2, 0x61, 0x62, 1, 0x61, 0x61, 2], [0xB8, 1, 0x61, 0x61, 1], [0xA1, 0x61, 0x61, 1, 0],
      [0xBF, 0x61, 0x61, 1, 0xFF], [0x80], [], [0xA1, 1, 1], [0xA1, 0x61, 0x61],
    ] as [[UInt8]] {
      #expect(bytes.withRawSpan { layouts.packed($0) } == nil, "\(bytes)")
    }
  }

  @Test func `A damaged object with a layout is damaged or another object, and never a crash`() {
    let seed = Seed.announce()
    var random = seed.generator()
    let layouts = ObjectLayouts(["a", "b", "c"])
    let locators = ["a", "b", "c"].map { FieldLocator(CBORValue.text($0).encoded, layouts) }
    var (damaged, other) = (0, 0)
    for round in 0..<60_000 {
      let map = CBORValue.map(
        ["a", "b", "c"].map { CBORValue.Pair(.text($0), value(&random)) }
      ).encoded
      var bytes = map.withRawSpan { layouts.packed($0) }!
      for _ in 0...Int.random(in: 0..<3, using: &random) {
        let position = Int.random(in: 0..<min(bytes.count, 12), using: &random)
        bytes[position] = UInt8.random(in: 0...255, using: &random)
      }
      if round % 3 == 0 { bytes = Array(bytes.prefix(Int.random(in: 0...12, using: &random))) }
      let found = bytes.withRawSpan { object in
        (layouts.expanded(object), locators.map { $0.find(in: object) })
      }
      guard let expanded = found.0 else {
        damaged += 1
        continue
      }
      other += 1
      // What a reader of one field finds is what the map has.
      for (name, place) in zip(["a", "b", "c"], found.1) {
        let inMap = expanded.withRawSpan { StoredField.find(CBORValue.text(name).encoded, in: $0) }
        switch (place, inMap) {
        case (.found(let range), .found(let mapped)):
          #expect(bytes[range] == expanded[mapped], "\(seed) \(round)")
        case (.missing, .missing), (.unclear, _): break
        default: Issue.record("\(seed) \(round): \(place) and \(inMap)")
        }
      }
    }
    #expect(damaged > 5000 && other > 5000, "\(damaged) \(other)")
  }

  @Test(arguments: [false, true])
  func `No byte of an object's record can change unnoticed, nor the key of the record`(
    isChunked: Bool
  ) throws {
    let (id, payload) = (Array("id".utf8), Array("a payload of an object".utf8))
    let header = ObjectHeader(
      codec: ObjectLayout.codec, version: 3, commitVersion: 1 << 40 | 77,
      created: 1_700_000_000_000, idLength: id.count, contentLength: id.count + payload.count)
    let chunks = isChunked ? ChunkReference(first: 300, count: 1) : nil
    let record = header.record(id, payload, chunks: chunks, type: 5, sequence: 9)
    func isIntact(_ bytes: [UInt8], type: UInt32 = 5, sequence: UInt64 = 9) -> Bool {
      bytes.withRawSpan { record in
        guard let found = ObjectHeader(in: record) else { return false }
        return found.isChunked
          ? found.isIntact(in: record, with: id + payload, type: type, sequence: sequence)
          : found.isIntact(in: record, type: type, sequence: sequence)
      }
    }
    let found = try #require(record.withRawSpan { ObjectHeader(in: $0) })
    #expect(isIntact(record))
    #expect(found.commitVersion == header.commitVersion && found.created == header.created)
    #expect(found.idLength == id.count && found.contentLength == header.contentLength)
    #expect(found.chunks == chunks)
    #expect(!isIntact(record, type: 6) && !isIntact(record, sequence: 10))
    for position in record.indices {
      for bit in 0..<8 {
        var bytes = record
        bytes[position] ^= 1 << UInt8(bit)
        #expect(!isIntact(bytes), "bit \(bit) of byte \(position)")
      }
      #expect(!isIntact(Array(record.prefix(position))), "\(position) bytes")
    }
  }

  @Test func `An integer of variable length is read as it was written, or not at all`() {
    for value in [0, 1, 0x7F, 0x80, 0x3FFF, 0x4000, 1 << 35, 1 << 63, .max] as [UInt64] {
      var bytes: [UInt8] = []
      bytes.append(varint: value)
      let count = bytes.count
      bytes.withRawSpan { span in
        var offset = 0
        #expect(span.varint(at: &offset) == value && offset == count)
        offset = 0
        #expect(span.slice(0..<(count - 1))!.varint(at: &offset) == nil)
      }
    }
    // More than 64 bits, and more bytes than such a number has.
    for bytes in [
      [UInt8](repeating: 0xFF, count: 9) + [2], [UInt8](repeating: 0x80, count: 11) + [0],
    ] {
      bytes.withRawSpan { span in
        var offset = 0
        #expect(span.varint(at: &offset) == nil)
      }
    }
  }

  private func stored(_ objects: ObjectStore, _ id: Int) throws -> (codec: UInt16, size: Int) {
    try objects.storage.openCore("read").withSnapshot("read") { snapshot in
      let type = try #require(try ObjectReading.type(named: "Shipment", snapshot))
      let key = Array("\(id)".utf8)
      let hash = snapshot.generation.objectHash(type: type.number, id: key)
      return try #require(
        try ObjectReading.withObject(type: type.number, id: key, hash: hash, in: snapshot) {
          head, _, object in (head.codec, object.byteCount)
        })
    }
  }

  @Test func `Objects of a declared schema are stored without their names`() throws {
    let temporary = try TemporaryStore()
    let objects = ObjectStore(temporary.store)
    try objects.save((0..<100).map { Shipment($0) })
    let (codec, size) = try stored(objects, 7)
    #expect(codec == ObjectLayout.codec)
    // A width, a layout, four ends; 7, "Rome", 70, and no note.
    #expect(size == 6 + 1 + 5 + 2)
    #expect(try objects.object(Shipment.self, id: 7) == Shipment(7))
    #expect(try temporary.store.verify().isEmpty)
  }

  @Test
  func `Objects of a dropped type are sound until they are swept, and no other object is read`()
    throws
  {
    let temporary = try TemporaryStore()
    let objects = ObjectStore(temporary.store)
    try objects.save((0..<2500).map { Shipment($0) })
    try objects.deleteAll(Shipment.self)
    #expect(try temporary.store.verify() == [], "before the sweep")
    try objects.save(Shipment(1))
    let core = temporary.store.core
    var steps = 0
    while try core.withGeneration({ generation in
      try core.transact(in: generation) { try $0.sweepDropped(limit: 1000) }.result
    }) {
      steps += 1
      #expect(try temporary.store.verify() == [], "after step \(steps)")
    }
    #expect(steps >= 3)
    #expect(try objects.objects(Shipment.self).fetch() == [Shipment(1)])
  }

  @Test func `Programs with and without the schema read and replace each other's objects`() throws {
    let temporary = try TemporaryStore()
    let declared = ObjectStore(temporary.store)
    let plain = ObjectStore(temporary.store)
    try declared.save((0..<10).map { Shipment($0, note: "n\($0)") })
    var parcel = try #require(try plain.object(PlainShipment.self, id: 3))
    #expect(parcel == PlainShipment(id: 3, city: "Rome", grams: 30, note: "n3"))
    parcel.grams = 31
    try plain.save(parcel)
    // The program without a schema stores the fields of the layout with it.
    #expect(try stored(declared, 3).codec == ObjectLayout.codec)
    parcel.rush = true
    try plain.save(parcel)
    #expect(try stored(declared, 3).codec == CodecIdentifier.cbor.rawValue)
    #expect(try declared.object(Shipment.self, id: 3)?.grams == 31)
    #expect(try declared.objects(Shipment.self).where { $0.grams == 31 }.count() == 1)
    // The field that this program does not declare survives its save.
    try declared.save(Shipment(3, grams: 32))
    #expect(try plain.object(PlainShipment.self, id: 3)?.rush == true)
    #expect(try declared.objects(Shipment.self).sum(\.grams) == 32 + 420)
    #expect(try temporary.store.verify().isEmpty)
  }

  @Test func `Objects keep the layout of their declaration until they are saved again`() throws {
    let temporary = try TemporaryStore()
    let old = ObjectStore(temporary.store)
    let new = ObjectStore(temporary.store)
    try old.save((0..<10).map { Shipment($0, note: "n\($0)") })
    let before = try stored(old, 4)
    var next = try #require(try new.object(NextShipment.self, id: 4))
    #expect(next.stamps == 3)
    next.stamps = 5
    try new.save(next)
    #expect(try stored(old, 5) == before)
    #expect(try new.objects(NextShipment.self).where { $0.stamps == 3 }.count() == 9)
    #expect(try new.objects(NextShipment.self).where { $0.grams >= 40 }.count() == 6)
    // The older program goes on, and what it does not know survives its saves.
    #expect(try old.object(Shipment.self, id: 4) == Shipment(4, note: "n4"))
    try old.save(Shipment(4, note: "other"))
    #expect(try new.object(NextShipment.self, id: 4)?.stamps == 5)
    try old.save(Shipment(11))
    #expect(try new.object(NextShipment.self, id: 11)?.stamps == 3)
    #expect(try temporary.store.verify().isEmpty)
  }

  @Test func `A layout of a transaction that failed is not used`() throws {
    struct Stop: Error {}
    let temporary = try TemporaryStore()
    let objects = ObjectStore(temporary.store)
    #expect(throws: Stop.self) {
      try objects.write { objects in
        try objects.save(Shipment(1))
        #expect(try objects.object(Shipment.self, id: 1) == Shipment(1))
        try objects.save(Shipment(1, grams: 5))
        throw Stop()
      }
    }
    let other = ObjectStore(temporary.store)
    try other.save(
      try CBORDecoder().decode(
        NextShipment.self,
        from: CBOREncoder().encode(PlainShipment(id: 1, city: "Bern", grams: 9, note: nil))))
    #expect(try other.object(NextShipment.self, id: 1)?.city == "Bern")
    try objects.save(Shipment(2))
    #expect(try objects.object(Shipment.self, id: 1)?.grams == 9)
    #expect(try temporary.store.verify().isEmpty)
  }

  @Test func `verify() finds a copy of the layouts that is missing or another`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/store"
    var objects = try ObjectStore(at: path)
    try objects.save(Shipment(1))
    let type = try objects.storage.openCore("read").withSnapshot("read") { snapshot in
      try #require(try ObjectReading.type(named: Shipment.storedName, snapshot)).number
    }
    #expect(try objects.storage.verify().isEmpty)
    objects.close()
    let key = ObjectFormat.objectKey(type: type, sequence: 0)
    for copy in [try ObjectLayouts(["other"]).copy(), nil] {
      try ClosedStore.change(path) { transaction in
        let table = try transaction.makeTable(Generation.objectsName, keys: .bytes)
        if let copy {
          try transaction.put(copy, forKey: key, in: table)
        } else {
          try transaction.remove(key: key, in: table)
        }
      }
      objects = try ObjectStore(at: path)
      #expect(try objects.storage.verify().count == 1)
      #expect(try objects.object(Shipment.self, id: 1) == Shipment(1))
      objects.close()
    }
  }

  @Test func `The names of the fields survive the loss of the type's record`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/store"
    var objects = try ObjectStore(at: path)
    try objects.save((1...50).map { Shipment($0, note: "n\($0)") })
    objects.close()
    try ClosedStore.change(path) { transaction in
      try transaction.put([1, 2, 3], forKey: Array("t:Shipment".utf8), in: .main)
    }
    let report = try SharedStore.repair(at: path)
    let type = try #require(report.types.first { $0.isRecovered })
    #expect(type.kept == 50)
    objects = try ObjectStore(
      at: path, migrations: [.rename(type: type.name, to: Shipment.storedName)])
    try objects.prepare(Shipment.self)
    #expect(try objects.object(Shipment.self, id: 9) == Shipment(9, note: "n9"))
    #expect(try objects.objects(Shipment.self).where { $0.grams > 100 }.count() == 40)
    #expect(try objects.storage.verify().isEmpty)
    objects.close()
  }
}
