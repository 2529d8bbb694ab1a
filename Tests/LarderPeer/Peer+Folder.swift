// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// A folder of files that several processes use.
//
//   folder PATH count N        -> ok             adds 1 to `all` and to a key of its own, N times
//   folder PATH fill N         -> ok             writes `big`, all bytes alike, N times, without end
//                                                if N is 0

import Foundation
import Larder
import LarderTesting

extension Peer {
  func folder(_ words: [Substring]) throws -> String {
    let storage = DiskFolderStorage(folderURL: URL(fileURLWithPath: String(words[0])))
      .makeSyncStorage()
    let count = try number(words[2])
    var done = 0
    while count == 0 || done < count {
      if words[1] == "count" {
        for key in ["all", "\(ProcessInfo.processInfo.processIdentifier)"] {
          try storage.updateOrInsert(forKey: Filename(rawValue: key)) { data in
            let old = data.flatMap { Int(String(decoding: $0, as: UTF8.self)) } ?? 0
            data = Data(String(old + 1).utf8)
          }
        }
      } else {
        try storage.set(Data(repeating: UInt8(done % 251), count: 200_000), forKey: "big")
      }
      done += 1
    }
    return "ok"
  }
}
