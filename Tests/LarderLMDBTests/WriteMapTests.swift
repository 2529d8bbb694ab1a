// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderLMDB
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// Writing through the map: what is reserved, and that no transaction goes beyond it.
@Suite(.timeLimit(.minutes(60))) struct WriteMapTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  /// Whether an environment is written through the map here.
  private static let isMapped: Bool = {
    guard let tests = try? WriteMapTests(), let environment = try? tests.environment() else {
      return false
    }
    environment.selectWriteMode(throughMap: true)
    defer { environment.close() }
    return environment.usesWriteMap
  }()
  private static let needsMap: Comment = "nothing is written through the map here"

  /// An environment with an entry in the main table, as every store has.
  private func environment(mapSize: Int = 1 << 30) throws -> EnvironmentHandle {
    let environment = try EnvironmentHandle(
      path: directory.path, options: .init(mapSize: mapSize, synchronous: false))
    var write = try WriteTransaction(in: environment)
    try write.put([1, 2, 3], forKey: [1], in: .main)
    try write.commit()
    return environment
  }

  @Test(.enabled(if: WriteMapTests.isMapped, WriteMapTests.needsMap))
  func `The bounds of changes and commits hold, whatever is changed`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let environment = try environment()
    var setup = try WriteTransaction(in: environment)
    let integers = try setup.makeTable("integers", keys: .integers)
    let bytes = try setup.makeTable("bytes", keys: .bytes)
    try setup.commit()
    var most = 0.0
    for round in 0..<600 {
      environment.selectWriteMode(throughMap: true)
      try #require(environment.usesWriteMap)
      var write = try WriteTransaction(in: environment)
      let isLarge = random.chance(8)
      for _ in 0..<(isLarge ? 700 : Int.random(in: 1...12, using: &random)) {
        let table = random.chance(50) ? integers : bytes
        let depth = try write.statistics(of: table).depth
        let start = write.nextPage ?? 0
        let length = [0, 20, 300, 1500, 5000, 32_768].randomElement(using: &random)!
        let number = UInt64.random(in: 0..<6000, using: &random)
        let key =
          [UInt8](repeating: UInt8(number & 3), count: 40 + Int(number % 440))
          + [UInt8(number & 255), UInt8(number >> 8)]
        var overflow = 0
        if random.chance(round < 400 ? 25 : 60) {
          if table == integers {
            try write.remove(key: number, in: table)
          } else {
            try write.remove(key: key, in: table)
          }
        } else {
          let value = [UInt8](repeating: 7, count: length)
          overflow = length > 1024 ? length / 4096 + 2 : 0
          if table == integers {
            try value.withRawSpan { span throws(LMDBError) in
              try write.put(span, forKey: number, in: table)
            }
          } else {
            try write.put(value, forKey: key, in: table)
          }
        }
        let grown = (write.nextPage ?? .max) - start - overflow
        let bound = WriteMapReservation.operationPages(depth: depth)
        #expect(grown <= bound, "\(grown) pages at depth \(depth), \(seed)")
        most = max(most, Double(grown) / Double(bound))
      }
      if random.chance(1) { try write.empty(random.chance(50) ? integers : bytes) }
      let (next, bound) = (write.nextPage ?? 0, write.commitPages)
      if random.chance(5) { continue }
      try write.commit()
      let grown = environment.information.lastPage + 1 - next
      #expect(grown <= bound, "a commit of \(grown) pages, \(seed)")
      #expect(environment.information.lastPage * 4096 < environment.reservedBytes)
      // Some of the rounds return pages to the file.
      if random.chance(10) {
        environment.selectWriteMode(throughMap: false)
        var write = try WriteTransaction(in: environment)
        let next = write.nextPage
        #expect(next == nil)
        try write.put([UInt8(round & 255)], forKey: [1], in: .main)
        try write.commit()
      }
    }
    print("a change took \(Int(most * 100)) % of its bound at most")
    environment.close()
    #expect(try StructuralVerifier.verify(path: directory.path + "/data.mdb").findings == [])
  }

  @Test(.enabled(if: WriteMapTests.isMapped, WriteMapTests.needsMap))
  func `Only a writer makes the file longer, and by what it reserves`() throws {
    let environment = try environment()
    let path = directory.path + "/data.mdb"
    let before = try TestFiles.size(path)
    #expect(before < 1 << 20)
    environment.selectWriteMode(throughMap: true)
    try #require(environment.usesWriteMap)
    #expect(try TestFiles.size(path) == environment.reservedBytes)
    #expect(try TestFiles.size(path) < 4 << 20)
    let status = try #require(try FileSystem.status(of: path))
    environment.selectWriteMode(throughMap: true)
    var write = try WriteTransaction(in: environment)
    try write.put([9], forKey: [1], in: .main)
    try write.commit()
    #expect(try FileSystem.status(of: path)?.size == status.size)
    environment.close()
    let again = try EnvironmentHandle(
      path: directory.path, options: .init(mapSize: nil, synchronous: false))
    #expect(!again.usesWriteMap)
    #expect(try FileSystem.status(of: path)?.size == status.size)
    do {
      let read = try ReadTransaction(in: again)
      let found = try read.value(forKey: [1], in: .main)?.copied()
      #expect(found == [9])
    }
    again.close()
  }

  @Test(
    .enabled(if: WriteMapTests.isMapped, WriteMapTests.needsMap),
    .enabled(if: SmallFileSystem.isAvailable, SmallFileSystem.reason))
  func `A transaction that was refused room publishes nothing for later writers`() throws {
    try SmallFileSystem.with(kilobytes: 4096, at: directory.path) { try refuseRoom() }
  }

  private func refuseRoom() throws {
    let environment = try environment()
    environment.selectWriteMode(throughMap: true)
    #expect(environment.usesWriteMap)
    var write = try WriteTransaction(in: environment)
    try write.put([4], forKey: [1], in: .main)
    var refusal: LMDBError?
    do {
      try write.put([UInt8](repeating: 1, count: 16 << 20), forKey: [2], in: .main)
    } catch {
      refusal = error
    }
    #expect(refusal?.code == .noRoomInMap && refusal?.isDamage == false)
    #expect(environment.didReservationFail)
    var outcome: LMDBError?
    do { try write.commit() } catch { outcome = error }
    #expect(outcome?.code == .noRoomInMap)
    do {
      let read = try ReadTransaction(in: environment)
      let found = try read.value(forKey: [1], in: .main)?.copied()
      #expect(found == [1, 2, 3])
    }
    // On a full disk it continues with the file, and with the map when there is room.
    _ = try ChildProcess.run("/bin/cp", ["/dev/zero", directory.path + "/ballast"])
    environment.selectWriteMode(throughMap: true)
    #expect(environment.usesWriteMap && !environment.didReservationFail)
    var small = try WriteTransaction(in: environment)
    try small.put([5], forKey: [1], in: .main)
    try small.commit()
    do {
      let read = try ReadTransaction(in: environment)
      let found = try read.value(forKey: [1], in: .main)?.copied()
      #expect(found == [5])
    }
    environment.close()
  }
}
