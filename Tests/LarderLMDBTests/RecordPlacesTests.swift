// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderLMDB
import LarderSystem
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60))) struct RecordPlacesTests {
  /// The bytes must stay where they are: no array of the test is changed.
  private func remember(
    _ bytes: [UInt8], _ hash: UInt64, readVersion: UInt64, checksum: UInt64 = 7,
    in places: RecordLocationCache
  ) {
    bytes.withRawSpan {
      places.remember($0, of: hash, readVersion: readVersion, checksum: checksum)
    }
  }

  @Test func `A place leads to the bytes that lie there`() throws {
    let places = try RecordLocationCache(lines: 4)
    let bytes: [UInt8] = Array(0..<200)
    #expect(places.place(of: 5) == nil)
    remember(bytes, 5, readVersion: 3, checksum: 9, in: places)
    let place = try #require(places.place(of: 5))
    #expect(place.readVersion == 3 && place.checksum == 9)
    #expect(places.withBytes(at: place) { $0.copied() } == bytes)
    // Of the same line, and of the same lowest bits.
    #expect(places.place(of: 4) == nil)
    #expect(places.place(of: 5 | 1 << 40) == nil)
  }

  @Test func `Two records share a line and the oldest makes room`() throws {
    let places = try RecordLocationCache(lines: 1)
    let bytes: [UInt8] = [1, 2, 3]
    // Read versions are stored inverted.
    remember(bytes, 1, readVersion: ~10, in: places)
    remember(bytes, 2, readVersion: ~11, in: places)
    #expect(places.place(of: 1) != nil && places.place(of: 2) != nil)
    remember(bytes, 1, readVersion: ~12, in: places)
    #expect(places.place(of: 1)?.readVersion == ~12 && places.place(of: 2)?.readVersion == ~11)
    remember(bytes, 3, readVersion: ~13, in: places)
    #expect(places.place(of: 1) != nil && places.place(of: 2) == nil)
    #expect(places.place(of: 3)?.readVersion == ~13)
    remember([UInt8](repeating: 0, count: 70_000), 1, readVersion: ~14, in: places)
    #expect(places.place(of: 1)?.readVersion == ~12)
  }

  @Test func `Threads that write one line at once leave no mixture`() async throws {
    let places = try RecordLocationCache(lines: 1)
    let bytes: [UInt8] = Array(0..<250)
    await withTaskGroup(of: Int.self) { group in
      for writer in 1...4 {
        group.addTask {
          var mixed = 0
          for step in 1...20_000 as ClosedRange<UInt64> {
            let hash = UInt64(writer) << 32
            let readVersion = UInt64(writer) << 40 | step
            self.remember(
              Array(bytes.prefix(writer)), hash, readVersion: readVersion,
              checksum: readVersion &* 31, in: places)
            for other in 1...4 as ClosedRange<UInt64> {
              guard let place = places.place(of: other << 32) else { continue }
              if place.readVersion >> 40 != other || place.checksum != place.readVersion &* 31 {
                mixed += 1
              }
            }
          }
          return mixed
        }
      }
      for await mixed in group { #expect(mixed == 0) }
    }
  }
}
