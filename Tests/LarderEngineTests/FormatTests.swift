// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderSystem
import LarderTesting
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(60))) struct FormatTests {
  @Test func `The shared table has the documented layout`() {
    typealias Layout = SharedTableLayout
    #expect(MemoryLayout<Atomic<UInt64>>.stride == 8)
    #expect(MemoryLayout<Atomic<UInt32>>.stride == 4)
    #expect(MemoryLayout<Atomic<UInt8>>.stride == 1)
    #expect(Layout.namespaceStamps == 1024)
    #expect(Layout.leases == Layout.namespaceStamps + Layout.namespaceStampCount * 8)
    #expect(Layout.processes == Layout.leases + Layout.leaseCount * Layout.leaseSize)
    for shape in [SharedTableShape.small, .largest, .init(budget: 1 << 25)] {
      let end = Layout.processes + shape.processSlots * Layout.processSize
      #expect(shape.stamps >= end && shape.stamps % 4096 == 0)
      #expect(shape.recency == shape.stamps + shape.stampSlots * 8)
      #expect(shape.recency % 64 == 0, "a bucket of uses is one cache line")
      #expect(shape.smallQueue == shape.recency + shape.recencySlots * 8)
      #expect(shape.mainQueue == shape.smallQueue + shape.queueSlots * 8)
      #expect(shape.ghosts == shape.mainQueue + shape.queueSlots * 8)
      #expect(shape.coordination == shape.ghosts + shape.queueSlots * 4)
      // A small store has no room for what is only reserved.
      let reserved = shape == .small ? 0 : 65_536
      #expect(shape.remote == shape.coordination + reserved)
      #expect(shape.samples == shape.remote + reserved)
      let regionSize = shape.removals - shape.samples
      #expect(shape.fileSize == shape.removals + shape.removalWords * 8)
      let sampleEnd = Layout.sampleWords + shape.sampleSlots * 8
      #expect(sampleEnd == regionSize && shape.sampleSlots >= 496)
      #expect(shape.readerSlots * 64 + 128 == shape.lockFileSize)
      #expect(SharedTableShape.lockFileSizes.contains(shape.lockFileSize))
    }
    #expect(Layout.processInside + 2 * Layout.insideCount <= Layout.processSize)
    #expect(Layout.processCounters + Counter.allCases.count * 8 <= Layout.processInside)
    #expect(Layout.retired + Counter.allCases.count * 8 <= Layout.leaseMap)
    #expect(Layout.useClock % 64 == 0 && Layout.queues >= Layout.useClock + 64)
    #expect(Layout.sampleThreshold == Layout.useClock + 8)
    #expect(Layout.sampleTail >= Layout.sampleHead + 64, "recorders store the head only")
    #expect(Layout.queues + EvictionQueues.Word.allCases.count * 8 <= Layout.namespaceStamps)
    #expect(SharedTableShape(budget: 0).recencySlots == 65_536)
    #expect(SharedTableShape(budget: 256 << 20).recencySlots == 1 << 20)
    #expect(SharedTableShape(budget: 64 << 20).recencySlots == 65_536)
    #expect(SharedTableShape(budget: 1 << 50).recencySlots == 1 << 24)
    #expect(SharedTableShape(budget: 1 << 20, entries: 40_000).queueSlots == 65_536)
  }

  @Test func `A header survives the way to bytes and back`() throws {
    var header = EntryHeader(
      codec: 16, keyTag: 1, keyLength: 3, payloadLength: 5, commitVersion: 1 << 41 | 7, created: 12,
      expires: 99, namespace: 4, epoch: 2)
    header.admission = 0x8765_4321
    let key: [UInt8] = [1, 2, 3]
    let payload: [UInt8] = [9, 8, 7, 6, 5]
    let hash = EntryHeader.contentHash(key: key, payload: payload)
    let record = header.sealed(contentHash: hash) + key + payload
    let found = try record.withRawSpan { try EntryHeader(in: $0, at: 0) }
    #expect(found == header && found.admission == 0x8765_4321)
    #expect(found.storedLength == record.count)
    #expect(found.isIntact(contentHash: hash) && !found.isIntact(contentHash: hash ^ 1))
  }

  @Test func `No byte of an entry can change unnoticed`() throws {
    var header = EntryHeader(
      codec: 1, keyTag: 1, keyLength: 3, payloadLength: 5, commitVersion: 77, created: 12,
      expires: 99,
      namespace: 4, epoch: 2)
    let content: [UInt8] = [1, 2, 3, 9, 8, 7, 6, 5]
    let hash = EntryHeader.contentHash(key: [1, 2, 3], payload: [9, 8, 7, 6, 5])
    let record = header.sealed(contentHash: hash) + content
    for index in record.indices {
      for bit in 0..<8 {
        var damaged = record
        damaged[index] ^= 1 << bit
        let isNoticed = damaged.withRawSpan { span -> Bool in
          guard let found = try? EntryHeader(in: span, at: 0) else { return true }
          let end = 64 + found.contentLength
          guard end == span.byteCount else { return true }
          let key = span.slice(64..<(64 + found.keyLength))!.copied()
          let payload = span.slice((64 + found.keyLength)..<end)!.copied()
          let hash = EntryHeader.contentHash(key: key, payload: payload)
          return !found.isIntact(contentHash: hash)
        }
        #expect(isNoticed, "bit \(bit) of byte \(index)")
      }
    }
  }

  @Test func `Hostile records never lead outside themselves`() {
    let seed = Seed.announce()
    var random = seed.generator()
    var header = EntryHeader(
      codec: 1, keyTag: 1, keyLength: 3, payloadLength: 5, commitVersion: 77, created: 12,
      expires: 99,
      namespace: 4, epoch: 2)
    let whole = header.sealed(contentHash: 1) + [1, 2, 3, 9, 8, 7, 6, 5]
    for _ in 0..<20_000 {
      var bytes = whole + whole
      for _ in 0..<Int.random(in: 1...8, using: &random) {
        bytes[Int.random(in: bytes.indices, using: &random)] = UInt8.random(
          in: 0...255, using: &random)
      }
      bytes.removeLast(Int.random(in: 0...bytes.count, using: &random))
      bytes.withRawSpan { span in
        var offset = 0
        while offset < span.byteCount, let found = try? EntryHeader(in: span, at: offset) {
          let (length, limit) = (found.storedLength, span.byteCount)
          #expect(length >= EntryHeader.size)
          #expect(offset + length <= limit)
          offset += found.storedLength
        }
      }
    }
  }

  @Test func `CURRENT is valid only if it is complete`() {
    let text = CurrentPointer.text(42)
    #expect(CurrentPointer.parse(Array(text.utf8)) == 42)
    for cut in 0..<text.utf8.count {
      #expect(CurrentPointer.parse(Array(text.utf8.prefix(cut))) == nil)
    }
    #expect(CurrentPointer.parse(Array("larder 1 g-42 0\n".utf8)) == nil)
    #expect(CurrentPointer.parse(Array("larder 1 g-99999999999 0\n".utf8)) == nil)
    #expect(CurrentPointer.parse([0xFF, 0xFE, 0x0A]) == nil)
  }

  @Test func `A state file is valid only with its checksum`() {
    let pageCache = PageCacheIdentity(mount: 3, fileSystem: 4)
    let state = StoreState(
      isDirty: true, bootID: 7, storeID: (1, 2), clean: (5, 6), pageCache: pageCache)
    let bytes = state.bytes()
    #expect(bytes.count == StoreState.size)
    let read = StoreState(bytes)
    #expect(read?.isDirty == true && read?.bootID == 7 && read?.pageCache == pageCache)
    #expect(read?.dataChanged == 5 && read?.newestTransaction == 6)
    for index in bytes.indices {
      var damaged = bytes
      damaged[index] ^= 0x10
      #expect(StoreState(damaged) == nil, "byte \(index)")
    }
    #expect(StoreState([]) == nil && StoreState(bytes + [0]) == nil)
  }

  @Test func `A deadline is never computed past the end of time`() throws {
    #expect(try Expiration.after(.seconds(1)).deadline(now: 5) == 1005)
    #expect(try Expiration.after(.nanoseconds(1)).deadline(now: 5) == 6)
    #expect(try Expiration.after(.seconds(Int64.max / 2)).deadline(now: 5) == EntryHeader.never)
    #expect(try Expiration.never.deadline(now: 5) == EntryHeader.never)
    #expect(try Expiration.at(millisecondsSince1970: -4).deadline(now: 5) == 0)
  }

  @Test func `Jitter spreads equal lifetimes and never lengthens one`() throws {
    let lifetime: Int64 = 100_000
    for jitter in [0.1, 0.5, 1] {
      let expires = Expiration.after(.milliseconds(lifetime), jitter: jitter)
      let found = try (0..<4000).map { _ in try expires.deadline(now: 7) - 7 }
      let shortest = lifetime - Int64(Double(lifetime) * jitter)
      #expect(found.allSatisfy { $0 > 0 && $0 >= shortest && $0 <= lifetime }, "\(jitter)")
      // Each quarter of the range gets about a quarter of the lifetimes.
      let quarter = (lifetime - shortest) / 4
      for index in 0..<4 {
        let start = shortest + Int64(index) * quarter
        let count = found.count { $0 >= start && $0 < start + quarter }
        #expect((800..<1200).contains(count), "\(jitter), \(index): \(count)")
      }
    }
    #expect(try Expiration.after(.seconds(1), jitter: 0).deadline(now: 5) == 1005)
    #expect(try Expiration.after(.nanoseconds(1), jitter: 1).deadline(now: 5) == 6)
    let endless = Expiration.after(.seconds(Int64.max), jitter: 1)
    #expect(try (0..<100).allSatisfy { _ in try endless.deadline(now: 5) > 5 })
  }

  @Test(arguments: [-0.1, 1.1, Double.nan, .infinity])
  func `A jitter outside 0 to 1 is an error of the write`(jitter: Double) {
    let error = #expect(throws: StoreError.self) {
      try Expiration.after(.seconds(1), jitter: jitter).deadline(now: 5)
    }
    #expect(error?.code == .invalidOption && error?.message.contains("0 to 1") == true)
  }
}
