// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting

// WHAT A DISK MAY HOLD AFTER A POWER CUT
//
// A model of a file system that promises what POSIX promises and not more:
//
//   a file       What was written before its last fsync or fdatasync is there, and so is what was
//                written through O_DSYNC. Of what was written since, each 512-byte sector may be
//                there or not, in any order of writing; the file may be as long as its last byte
//                that is there, or longer, up to the length it had, with zeros.
//   a directory  What was in it at its last fsync is in it. Of what was created, renamed and removed
//                in it since, some first part is done. That order is kept within one directory is
//                an assumption (every journaling file system does it); between directories nothing
//                is assumed. An fsync of a file does not bring its name into its directory, though
//                most file systems do that too.
//
// Memory that is mapped and written to by others (`shared.table`, `lock.mdb`) is not seen by strace:
// such a file is there or not, zeros, as it was created, or as it was in the end.

/// The disk as seen by strace: what is on it for sure, and what may be.
struct DiskModel {
  private struct File {
    var stable: [UInt8] = []
    var pending: [Change] = []
    /// The event number of each write.
    var moments: [Int] = []
    /// The length as running processes see it.
    var size = 0
  }

  private enum Change {
    case write(offset: Int, bytes: [UInt8])
    case resize(Int)
  }

  private struct Directory {
    var stable: [String: Int] = [:]
    var now: [String: Int] = [:]
    /// The directory after each change since the last sync.
    var pending: [[String: Int]] = []
  }

  private var files: [Int: File] = [:]
  private var directories: [Int: Directory] = [0: Directory()]
  private var count = 1
  private var eventCount = 0
  private let root: String

  /// An empty directory, itself safe.
  init(root: String) { self.root = root }

  // MARK: - What is done to it

  /// - Parameter losing: For a sync: which of the file's unsynced writes the disk loses, though the
  ///   sync succeeds.
  mutating func apply(_ event: DiskEvent, losing: Int? = nil) {
    defer { eventCount += 1 }
    switch event {
    case .makeDirectory(let path): add(path) { disk, node in disk.directories[node] = Directory() }
    case .create(let path): add(path) { disk, node in disk.files[node] = File() }
    case .resize(let path, let size): change(path, .resize(size))
    case .extend(let path, let size):
      if let node = node(path), files[node]!.size < size { change(path, .resize(size)) }
    case .write(let path, let offset, let bytes, let isStable):
      guard let node = node(path) else { return }
      files[node]!.size = max(files[node]!.size, offset + bytes.count)
      if isStable {
        Self.write(bytes[...], at: offset, to: &files[node]!.stable)
      } else {
        append(.write(offset: offset, bytes: bytes), to: node)
      }
    case .rename(let path, let target):
      let (parent, name) = split(path)
      let (newParent, newName) = split(target)
      guard let node = node(path), parent == newParent else { return }
      alter(parent) { entries in
        entries[name] = nil
        entries[newName] = node
      }
    case .remove(let path):
      let (parent, name) = split(path)
      alter(parent) { $0[name] = nil }
    case .sync(let path, let begun):
      guard let node = node(path) else { return }
      if directories[node] != nil {
        directories[node]!.stable = directories[node]!.now
        directories[node]!.pending = []
      } else {
        synchronize(node, begun: begun, losing: losing)
      }
    case .output: break
    }
  }

  /// Returns how many writes a sync of this file would make durable.
  func unsyncedWrites(_ path: String) -> Int {
    node(path).flatMap { files[$0]?.pending.count } ?? 0
  }

  private mutating func synchronize(_ node: Int, begun: Int, losing: Int?) {
    guard var file = files[node] else { return }
    // It need not contain writes that came after it had begun.
    let count = file.moments.prefix { $0 < begun }.count
    for (index, change) in file.pending[..<count].enumerated() {
      switch change {
      case .write(let offset, let bytes):
        if index == losing {
          // Room it has, content it has not.
          Self.write([], at: offset + bytes.count, to: &file.stable)
        } else {
          Self.write(bytes[...], at: offset, to: &file.stable)
        }
      case .resize(let size): Self.resize(&file.stable, to: size)
      }
    }
    file.pending.removeFirst(count)
    file.moments.removeFirst(count)
    files[node] = file
  }

  private mutating func change(_ path: String, _ change: Change) {
    guard let node = node(path), files[node] != nil else { return }
    if case .resize(let size) = change { files[node]!.size = size }
    append(change, to: node)
  }

  private mutating func append(_ change: Change, to node: Int) {
    files[node]!.pending.append(change)
    files[node]!.moments.append(eventCount)
  }

  private mutating func add(_ path: String, _ make: (inout DiskModel, Int) -> Void) {
    guard path != root, node(path) == nil else { return }
    let (parent, name) = split(path)
    let node = count
    count += 1
    make(&self, node)
    alter(parent) { $0[name] = node }
  }

  private mutating func alter(_ path: String, _ body: (inout [String: Int]) -> Void) {
    guard let node = node(path), directories[node] != nil else { return }
    body(&directories[node]!.now)
    directories[node]!.pending.append(directories[node]!.now)
  }

  private func split(_ path: String) -> (parent: String, name: String) {
    let slash = path.lastIndex(of: "/")!
    return (String(path[..<slash]), String(path[path.index(after: slash)...]))
  }

  private func node(_ path: String) -> Int? {
    var node = 0
    for name in path.dropFirst(root.count).split(separator: "/") {
      guard let next = directories[node]?.now[String(name)] else { return nil }
      node = next
    }
    return node
  }

  // MARK: - What is left of it

  /// Writes one of the states the disk may be in to a fresh directory.
  func write(_ fate: inout DiskFate, to path: String) throws {
    try write(directory: 0, &fate, to: path)
  }

  private func write(directory node: Int, _ fate: inout DiskFate, to path: String) throws {
    try TestFiles.makeDirectory(path)
    let directory = directories[node]!
    let kept = fate.kept(ofChanges: directory.pending.count)
    let entries = kept == 0 ? directory.stable : directory.pending[kept - 1]
    for (name, node) in entries.sorted(by: { $0.key < $1.key }) {
      let target = "\(path)/\(name)"
      if directories[node] != nil {
        try write(directory: node, &fate, to: target)
      } else if let file = files[node] {
        let written = image(of: file, &fate)
        guard let bytes = fate.mapped(name, written: written) else { continue }
        try TestFiles.write(bytes, to: target)
      }
    }
  }

  private func image(of file: File, _ fate: inout DiskFate) -> [UInt8] {
    var result = file.stable
    fate.beginFile(writes: file.pending.count)
    for (index, change) in file.pending.enumerated() {
      switch change {
      case .resize(let size):
        if fate.keeps(write: index) { Self.resize(&result, to: size) }
      case .write(let offset, let bytes):
        var start = 0
        while start < bytes.count {
          let end = min(bytes.count, start + fate.unit - (offset + start) % fate.unit)
          if fate.keeps(write: index) {
            Self.write(bytes[start..<end], at: offset + start, to: &result)
          }
          start = end
        }
      }
    }
    if result.count < file.size, fate.isLong() { Self.resize(&result, to: file.size) }
    return result
  }

  private static func write(_ bytes: ArraySlice<UInt8>, at offset: Int, to file: inout [UInt8]) {
    if file.count < offset + bytes.count { resize(&file, to: offset + bytes.count) }
    file.replaceSubrange(offset..<(offset + bytes.count), with: bytes)
  }

  private static func resize(_ file: inout [UInt8], to size: Int) {
    if file.count > size {
      file.removeLast(file.count - size)
    } else {
      file += [UInt8](repeating: 0, count: size - file.count)
    }
  }
}
