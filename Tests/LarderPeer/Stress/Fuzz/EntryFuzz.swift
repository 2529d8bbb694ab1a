// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine
import LarderSystem
import LarderTesting

/// Records of the table `entries`, with the chunks they refer to.
///
/// An input is the length of the record (u16), the record, then chunks one after another: length
/// (u16), bytes. The chunks have the ids the record's first reference names.
struct EntryFuzz: FuzzTarget {
  let name = "entry"

  func seeds(_ random: inout SeededRandom) -> [[UInt8]] {
    (0..<24).map { number in
      var record: [UInt8] = []
      var chunks: [UInt8] = []
      for _ in 0..<(number % 3 + 1) {
        let key = random.bytes(Int.random(in: 0...40, using: &random))
        let payload = random.bytes(Int.random(in: 0...300, using: &random))
        var header = EntryHeader(
          codec: 1, keyTag: 2, keyLength: key.count, payloadLength: payload.count,
          commitVersion: random.next() >> 20, created: 1_700_000_000_000,
          expires: EntryHeader.never,
          traits: .init(
            lifetime: number % 5 == 1 ? 1000 : 0, isPinned: number % 7 == 2,
            tagCount: number % 3, tagOrder: 9),
          namespace: 1, epoch: 1)
        header.isChunked = number % 4 == 3
        record += header.sealed(
          contentHash: EntryHeader.contentHash(key: key, payload: payload),
          tags: (0..<(number % 3)).map { _ in random.next() })
        if header.isChunked {
          record += ChunkReference(
            first: 7, count: ChunkReference.count(forContent: header.contentLength)
          ).bytes()
          chunks = chunk(key + payload, id: 7)
        } else {
          record += key + payload
        }
      }
      var input: [UInt8] = []
      input.append(littleEndian: UInt16(record.count))
      return input + record + chunks
    }
  }

  private func chunk(_ data: [UInt8], id: UInt64) -> [UInt8] {
    var result: [UInt8] = []
    result.append(littleEndian: UInt16(data.count + 8))
    result.append(littleEndian: XXH64.hash(data, seed: id))
    return result + data
  }

  func run(_ bytes: [UInt8]) -> UInt64 {
    var outcome = DecodingFacts()
    let length = min(Int(bytes.integer(at: 0, as: UInt16.self) ?? 0), max(bytes.count - 2, 0))
    let record = Array(bytes.dropFirst(2).prefix(length))
    let chunks = split(Array(bytes.dropFirst(2 + length)))
    record.withRawSpan { span in
      do throws(EntryHeader.Defect) {
        let readable = Record.readableLength(of: span)
        law(readable <= span.byteCount, "more is readable than there is")
        let items = try Record.items(in: span)
        law(readable == span.byteCount, "all is readable, and not all is")
        outcome.add(items.count)
        for item in items { outcome.add(judge(item, span, chunks)) }
      } catch {
        outcome.add(error == .damaged ? 1000 : 1001)
      }
    }
    return outcome.value
  }

  private func split(_ bytes: [UInt8]) -> [[UInt8]] {
    var chunks: [[UInt8]] = []
    var offset = 0
    while let length: UInt16 = bytes.integer(at: offset), chunks.count < 8 {
      chunks.append(Array(bytes.dropFirst(offset + 2).prefix(Int(length))))
      offset += 2 + Int(length)
    }
    return chunks
  }

  private func judge(_ item: RecordEntry, _ record: RawSpan, _ chunks: [[UInt8]]) -> Int {
    let header = item.header
    let content: [UInt8]?
    if let reference = item.chunks {
      content = Record.chunkedContent(reference, length: header.contentLength) { id, body in
        let index = Int(truncatingIfNeeded: id &- reference.first)
        guard chunks.indices.contains(index) else { return false }
        return chunks[index].withRawSpan(body)
      }
    } else {
      let start = item.offset + header.contentOffset
      content = record.slice(start..<(start + header.contentLength))?.copied()
    }
    guard let content else { return 1 }
    law(content.count == header.contentLength, "content of another length than its header says")
    let hash = EntryHeader.contentHash(
      key: Array(content.prefix(header.keyLength)),
      payload: Array(content.dropFirst(header.keyLength)))
    return header.isIntact(contentHash: hash) ? 2 : 3
  }
}

/// The store's own records in the main table.
struct RecordsFuzz: FuzzTarget {
  let name = "records"

  func seeds(_ random: inout SeededRandom) -> [[UInt8]] {
    var meta = StoreMeta(
      durability: .durable, generation: 1, inheriting: nil, budget: 1 << 20,
      shape: SharedTableShape(budget: 0), created: 1_700_000_000_000)
    meta.storeID = (random.next(), random.next())
    meta.secret = (random.next(), random.next())
    var totals = StoreTotals()
    totals.bytes = 123_456
    let name = Array("a name".utf8)
    return [
      [0] + meta.bytes(), [1] + totals.encoded(), [2] + NamespaceRecord(name: name).encoded(),
      [3] + NamespaceRecord.nameRecord(5, name: name) + name,
    ]
  }

  func repair(_ bytes: inout [UInt8]) {
    var record = Array(bytes.dropFirst())
    switch bytes.first {
    case 0 where record.count >= 88: record.store(XXH64.hash(Array(record[..<80])), at: 80)
    case 1 where record.count >= 40: record.store(XXH64.hash(Array(record[..<32])), at: 32)
    case 2 where record.count >= 32:
      record.store(UInt32(0), at: 4)
      record.store(UInt32(truncatingIfNeeded: XXH64.hash(record)), at: 4)
    default: return
    }
    bytes = [bytes[0]] + record
  }

  func run(_ bytes: [UInt8]) -> UInt64 {
    var outcome = DecodingFacts()
    outcome.add(Int(bytes.first ?? 9))
    Array(bytes.dropFirst()).withRawSpan { record in
      switch bytes.first {
      case 0:
        guard let meta = StoreMeta(record) else { return }
        outcome.add(1)
        let again = meta.bytes().withRawSpan { StoreMeta($0)?.bytes() }
        law(again == meta.bytes(), "meta is another after encoding")
      case 1:
        guard let totals = StoreTotals(record) else { return }
        outcome.add(2)
        law(totals.encoded().withRawSpan { StoreTotals($0) } == totals, "totals are others")
      case 2:
        guard let namespace = NamespaceRecord(record) else { return }
        outcome.add(3)
        outcome.add(count: namespace.name.count)
        let again = namespace.encoded().withRawSpan { NamespaceRecord($0) }
        law(again == namespace, "a namespace is another after encoding")
      default:
        let name = Array(bytes.dropFirst(9))
        outcome.add(NamespaceRecord.number(in: record, name: name) == nil ? 4 : 5)
        outcome.add(NamespaceRecord.number(ofKey: record) == nil ? 6 : 7)
      }
    }
    return outcome.value
  }
}
#endif
