// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// A folder of files that several processes use.
//
//   folder PATH count N        -> ok             adds 1 to `all` and to a key of its own, N times
//   folder PATH fill N         -> ok             writes `big`, all bytes alike, N times, without end
//                                                if N is 0
//   folder PATH hold 1         -> holding        stays in an update of `held` until it is killed
//   folder PATH plain N        -> ok             adds 1 to the plain file PATH, N times

import Foundation
import Larder
import LarderTesting

extension Peer {
  func folder(_ words: [Substring]) throws -> String {
    let url = URL(fileURLWithPath: String(words[0]))
    let count = try number(words[2])
    if words[1] == "plain" {
      for _ in 0..<count {
        try DiskStorage.main.makeSyncStorage().updateOrInsert(forKey: url, increment)
      }
      return "ok"
    }
    let storage = DiskFolderStorage(folderURL: url).makeSyncStorage()
    if words[1] == "hold" {
      try storage.updateOrInsert(forKey: "held") { _ in
        ParentProcess.send("holding")
        while readLine() != nil {}
      }
      return "ok"
    }
    var done = 0
    while count == 0 || done < count {
      if words[1] == "count" {
        for key in ["all", "\(ProcessInfo.processInfo.processIdentifier)"] {
          try storage.updateOrInsert(forKey: Filename(rawValue: key), increment)
        }
      } else {
        try storage.set(Data(repeating: UInt8(done % 251), count: 200_000), forKey: "big")
      }
      done += 1
    }
    return "ok"
  }
}

@Sendable private func increment(_ data: inout Data?) {
  let old = data.flatMap { Int(String(decoding: $0, as: UTF8.self)) } ?? 0
  data = Data(String(old + 1).utf8)
}
