// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderCoding
import LarderEngine
import LarderLMDB
internal import LarderObjectEngine
import LarderSystem
import Testing

@Suite struct CatalogSealTests {
  @Test func `A catalog record of an earlier form is an error with the remedy`() throws {
    let record = ObjectTypeRecord(
      number: 1, name: "Car", version: 1, fingerprint: 0, indexes: [], migrations: [])
    func flaw(_ bytes: [UInt8]) -> any Error {
      bytes.withRawSpan {
        ChecksummedRecord.flaw(of: ObjectTypeRecord.self, $0, "the record of a type")
      }
    }
    let bytes = try CBOREncoder().encode(record)
    var checked = bytes
    checked.append(littleEndian: XXH64.hash(bytes))
    for older in [bytes, checked] {
      let error = try #require(flaw(older) as? StoreError)
      #expect(error.code == .damaged && error.message.contains("larder export"))
    }
    // A record with a wrong checksum, and arbitrary bytes, are damaged and nothing else.
    for damaged in [bytes + [1, 2, 3, 4, 5, 6, 7, 8], [], [0xFF]] {
      #expect((flaw(damaged) as? LMDBError)?.isDamage == true)
    }
  }
}
