// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder

/// CBOR against Foundation's JSON, coders made once on both sides.
struct CodecFigures {
  let isQuick: Bool

  private let people = (0..<200).map(Person.sample)

  func decode() throws -> Figure {
    let codec = CBORCodec()
    let decoder = JSONDecoder()
    let encoder = JSONEncoder()
    let ours = try people.map { try codec.encode($0) }
    let theirs = try people.map { try encoder.encode($0) }
    let repeats = isQuick ? 5 : 20
    let result = try Rounds.compare(count: isQuick ? 5 : 21) { _ in
      var decoded: [Person] = []
      decoded.reserveCapacity(people.count)
      let time = try Rounds.nanoseconds {
        for _ in 0..<repeats {
          decoded.removeAll(keepingCapacity: true)
          for bytes in ours { decoded.append(try codec.decode(Person.self, from: bytes)) }
        }
      }
      guard decoded == people else { throw BenchFailure("CBOR decoded something else.") }
      return time / Double(repeats * people.count)
    } rival: { _ in
      var decoded: [Person] = []
      decoded.reserveCapacity(people.count)
      let time = try Rounds.nanoseconds {
        for _ in 0..<repeats {
          decoded.removeAll(keepingCapacity: true)
          for bytes in theirs { decoded.append(try decoder.decode(Person.self, from: bytes)) }
        }
      }
      guard decoded == people else { throw BenchFailure("JSON decoded something else.") }
      return time / Double(repeats * people.count)
    }
    return figure("core.cbor_decode", result, .atLeast(5), "Foundation's JSONDecoder")
  }

  func encode() throws -> Figure {
    let codec = CBORCodec()
    let encoder = JSONEncoder()
    let repeats = isQuick ? 5 : 20
    let result = try Rounds.compare(count: isQuick ? 5 : 21) { _ in
      var bytes = 0
      let time = try Rounds.nanoseconds {
        for _ in 0..<repeats { for person in people { bytes += try codec.encode(person).count } }
      }
      keep(bytes)
      return time / Double(repeats * people.count)
    } rival: { _ in
      var bytes = 0
      let time = try Rounds.nanoseconds {
        for _ in 0..<repeats { for person in people { bytes += try encoder.encode(person).count } }
      }
      keep(bytes)
      return time / Double(repeats * people.count)
    }
    for person in people {
      guard try codec.decode(Person.self, from: codec.encode(person)) == person else {
        throw BenchFailure("CBOR does not give back what it was given.")
      }
    }
    return figure("core.cbor_encode", result, .atLeast(4), "Foundation's JSONEncoder")
  }

  private func figure(
    _ id: String, _ result: Rounds.Comparison, _ bar: Figure.Bar, _ rival: String
  ) -> Figure {
    Figure(
      id: id, value: 1 / result.ratio, unit: "x", bar: bar, own: result.own, rival: rival,
      rivalValue: result.rival, rivalUnit: "ns", spread: result.inverseSpread)
  }
}
