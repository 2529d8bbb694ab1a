// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine
import LarderSystem
import LarderTesting

/// One kind of damage to a store that processes use.
struct LiveAct: Sendable {
  let name: String
  let damage: @Sendable (LiveFiles, inout SeededRandom, LiveOracle) -> Void

  static let all: [LiveAct] = [
    LiveAct(name: "data.mdb cut to 8 kB") { files, _, _ in
      try? TestFiles.truncate(files.data, to: 8192)
    },
    LiveAct(name: "3 pages zeroed") { files, random, _ in
      for _ in 0..<3 { files.write(zeros(4096), files.data, at: files.page(&random)) }
    },
    LiveAct(name: "3 pages made random") { files, random, _ in
      for _ in 0..<3 {
        let offset = files.page(&random)
        files.write(random.bytes(4096), files.data, at: offset)
      }
    },
    LiveAct(name: "both metas wiped") { files, _, _ in
      files.write(zeros(8192), files.data, at: 0)
    },
    LiveAct(name: "200 bytes made random") { files, random, _ in
      let size = max((try? TestFiles.size(files.data)) ?? 0, 1)
      for _ in 0..<200 {
        files.write(random.bytes(1), files.data, at: Int.random(in: 0..<size, using: &random))
      }
    },
    LiveAct(name: "state made random") { files, random, _ in
      try? TestFiles.write(random.bytes(64), to: files.generation + "/state")
    },
    LiveAct(name: "shared.table cut to 100 bytes") { files, _, _ in
      try? TestFiles.truncate(files.table, to: 100)
    },
    LiveAct(name: "CURRENT made random") { files, random, _ in
      try? TestFiles.write(random.bytes(40), to: files.root + "/CURRENT")
    },
    LiveAct(name: "the directory removed") { files, _, board in
      files.remove(files.store, board)
    },
    LiveAct(name: "the head of shared.table zeroed") { files, _, _ in
      files.write(zeros(65_536), files.table, at: 0)
    },
    LiveAct(name: "the generation's directory removed") { files, _, board in
      files.remove(files.generation, board)
    },
  ]

  private static func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }
}

/// The files of the current generation of a store in use. A file that is missing stays unchanged.
struct LiveFiles {
  let store: String
  let root: String
  let generation: String
  var data: String { generation + "/data.mdb" }
  var table: String { generation + "/shared.table" }

  init(store: String) {
    self.store = store
    root = store + "/v1"
    let named = try? CurrentPointer.read(in: StoreDirectory(path: store, root: root))
    generation = "\(root)/g-\((named ?? nil) ?? 1)"
  }

  func write(_ bytes: [UInt8], _ file: String, at offset: Int) {
    try? OwnedFile(path: file).write(bytes, at: offset)
  }

  /// Returns the offset of a random page of `data.mdb`.
  func page(_ random: inout SeededRandom) -> Int {
    let pages = max(((try? TestFiles.size(data)) ?? 0) / 4096, 1)
    return Int.random(in: 0..<pages, using: &random) * 4096
  }

  func remove(_ path: String, _ board: LiveOracle) {
    board.noteRemoval()
    TestFiles.removeAll(path)
    board.noteRemoval()
  }
}
#endif
