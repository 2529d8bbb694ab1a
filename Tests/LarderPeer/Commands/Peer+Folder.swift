// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// A folder of files that several processes use.
//
//   folder PATH count N        -> ok             adds 1 to `all` and to a separate key, N times
//   folder PATH fill N         -> ok             writes `big`, all bytes alike, N times, without end
//                                                if N is 0
//   folder PATH hold 1         -> holding        stays in an update of `held` until it is killed
//   folder PATH plain N        -> ok             adds 1 to the plain file PATH, N times
//   folder PATH limited N      -> inaccessible kept  under a limit of N bytes a file, with the signal's
//                                                default, replaces a value by a larger one than that
//   folder PATH blocked 1      -> 123            steps of a layered storage, asynchronous ones too, while
//                                                all threads of Swift's pool are blocked

import Foundation
import Larder
import LarderSystem
import LarderTesting
import Synchronization

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
    if words[1] == "blocked" { return blocked(DiskFolderStorage(folderURL: url)) }
    let storage = DiskFolderStorage(folderURL: url).makeSyncStorage()
    if words[1] == "limited" {
      signal(SIGXFSZ, SIG_DFL)
      var limit = rlimit(rlim_cur: rlim_t(count), rlim_max: rlim_t(count))
      #if canImport(Glibc)
      unsafe setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
      #else
      unsafe setrlimit(RLIMIT_FSIZE, &limit)
      #endif
      try storage.set(Data("kept".utf8), forKey: "a")
      do { try storage.set(Data(count: count * 2), forKey: "a") } catch let error as StorageError {
        return
          "\(error.code.rawValue) \(String(decoding: try storage.retrieve(forKey: "a"), as: UTF8.self))"
      }
      return "stored"
    }
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

  private func blocked(_ folder: DiskFolderStorage) -> String {
    let layered = MemoryStorage<String, Data>().combined(
      with: folder.usingStringKeys().asyncMapValues(transformIn: { $0 }, transformOut: { $0 }))
    let count = ProcessInfo.processInfo.activeProcessorCount
    let held = Held()
    // Some of these wait in the queue of the pool; all of its threads are held.
    for _ in 0..<count * 2 { Task.detached { held.hold() } }
    while held.count < count { OSThread.yield() }
    let sync = layered.makeSyncStorage()
    try? sync.set(Data("1".utf8), forKey: "a")
    let done = Event()
    layered.update(forKey: "a", { $0 += Data("2".utf8) }) { result in
      // In a completion, with the pool still blocked.
      _ = try? sync.updateOrInsert(forKey: "a") { $0? += Data("3".utf8) }
      done.set()
    }
    done.wait()
    return (try? sync.value(forKey: "a")).flatMap { $0.map { String(decoding: $0, as: UTF8.self) } }
      ?? "nothing"
  }
}

/// Blocks threads permanently, as the process ends afterwards.
private final class Held: Sendable {
  private let value = Atomic<Int>(0)
  private let never = Event()
  var count: Int { value.load(ordering: .acquiring) }
  func hold() {
    value.wrappingAdd(1, ordering: .acquiringAndReleasing)
    never.wait()
  }
}

@Sendable private func increment(_ data: inout Data?) {
  let old = data.flatMap { Int(String(decoding: $0, as: UTF8.self)) } ?? 0
  data = Data(String(old + 1).utf8)
}
