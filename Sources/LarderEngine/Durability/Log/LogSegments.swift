// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The segments of a log, as one process has them open.
///
/// A segment that is not in use by the log keeps its file. Files are never removed while a generation exists.
///
/// Of a durable store a file has bytes only after its name is on the disk: the directory is synced while the file
/// is empty. So a process that finds a segment syncs the file alone, though the process that has created it was
/// killed. A file without bytes is no segment; the next one that is begun completes it. The syncs of a relaxed store
/// are of the directory as well (`RedoLog+Syncing.swift`).
final class LogSegments: Sendable {
  struct Segment: Sendable {
    let file: OwnedFile
    let header: LogSegmentHeader
    let size: Int
  }

  private let path: String
  private let storeID: (UInt64, UInt64)
  /// Whether a new file and its name are on the disk before it is used.
  private let syncsFiles: Bool
  private let isWritable: Bool
  private let known = Mutex<[UInt64: Segment]>([:])

  /// The size of the first segment; each new one has four times the size of the largest, up to the greatest.
  private static let smallest = 16 << 10
  private static let greatest = 16 << 20
  private static let fileLimit = 32
  /// The size of all segments from which a writer waits for a checkpoint.
  private static let limit = 64 << 20

  init(
    path: String, storeID: (UInt64, UInt64), syncsFiles: Bool = true, isWritable: Bool = true
  ) {
    self.isWritable = isWritable
    self.path = path
    self.storeID = storeID
    self.syncsFiles = syncsFiles
  }

  static func name(_ number: Int) -> String { "log-\(number)" }

  /// Returns the segment with a sequence number, if it is in use.
  func segment(_ sequence: UInt64) throws(SystemError) -> Segment? {
    if let segment = known.withLock({ $0[sequence] }) { return segment }
    for segment in try all() where segment.header.sequence == sequence {
      keep(segment)
      return segment
    }
    return nil
  }

  private func keep(_ segment: Segment) {
    known.withLock { known in
      // A few are in use; others are those of earlier uses of the files.
      if known.count >= 4 { known = known.filter { $0.key + 3 > segment.header.sequence } }
      known[segment.header.sequence] = segment
    }
  }

  /// Reads the headers of all segments.
  func all() throws(SystemError) -> [Segment] {
    var found: [Segment] = []
    for number in 0..<Self.fileLimit {
      guard let file = try open(number) else { break }
      guard let header = LogSegmentHeader(try file.read(count: LogSegmentHeader.size, at: 0)),
        header.storeID == storeID
      else { continue }
      found.append(Segment(file: file, header: header, size: try file.status.size))
    }
    return found
  }

  private func open(_ number: Int) throws(SystemError) -> OwnedFile? {
    do throws(SystemError) {
      return try OwnedFile(path: path + "/" + Self.name(number), writable: isWritable)
    } catch {
      if error.isNoSuchFile { return nil }
      throw error
    }
  }

  /// The greatest sequence number of the files, used or not; zero without one.
  var newest: UInt64 {
    get throws(SystemError) { try all().map(\.header.sequence).max() ?? 0 }
  }

  /// Begins a segment, in a file that the log does not need, or in a new one. The caller is the only writer.
  ///
  /// - Parameters:
  ///   - size: The bytes that the segment must have room for.
  ///   - last: A sequence number that was used; its file may be lost.
  ///   - needed: The sequence numbers of the segments that are needed; `nil` if none is.
  /// - Returns: `nil` if the log has reached its limit, or the disk is full.
  func begin(
    version: UInt64, chain: UInt64, size: Int, after last: UInt64, needed: ClosedRange<UInt64>?
  ) throws(SystemError) -> Segment? {
    var newest = last
    var (total, largest, count) = (0, 0, 0)
    var free: (file: OwnedFile, size: Int)?
    var unusable: Int?
    while count < Self.fileLimit, let file = try open(count) {
      count += 1
      let fileSize = try file.status.size
      total += fileSize
      // One whose creator was killed, or of a relaxed store of which the system crashed before the first sync.
      if fileSize < Self.smallest { unusable = count - 1 }
      largest = max(largest, fileSize)
      let header = LogSegmentHeader(try file.read(count: LogSegmentHeader.size, at: 0))
      newest = max(newest, header?.sequence ?? 0)
      let isNeeded =
        header.map { $0.storeID == storeID && needed?.contains($0.sequence) ?? false } ?? false
      if !isNeeded, fileSize >= size + LogSegmentHeader.size, fileSize > free?.size ?? 0 {
        free = (file, fileSize)
      }
    }
    if free == nil {
      let wanted = max(
        min(max(4 * largest, Self.smallest), Self.greatest), size + LogSegmentHeader.size)
      if unusable ?? count >= Self.fileLimit || (total + wanted > Self.limit && count > 1) {
        return nil
      }
      guard
        let file = try createIfRoom(unusable ?? count, size: (wanted + 4095) & ~4095)
      else { return nil }
      free = (file, wanted)
    }
    let header = LogSegmentHeader(
      storeID: storeID, sequence: newest + 1, version: version, chain: chain)
    try free!.file.write(header.bytes, at: 0)
    let segment = Segment(file: free!.file, header: header, size: free!.size)
    keep(segment)
    return segment
  }

  private func createIfRoom(_ number: Int, size: Int) throws(SystemError) -> OwnedFile? {
    do throws(SystemError) {
      return try create(number, size: size)
    } catch {
      guard error.isStorageFull, !error.isRefusedSync else { throw error }
      // Without bytes the file is no segment, and is completed by the next writer that needs one.
      try? OwnedFile(path: path + "/" + Self.name(number)).truncate(to: 0)
      return nil
    }
  }

  /// Creates a file that is full of zeros, or completes that of a process that was killed meanwhile; on the disk
  /// unless a relaxed store syncs it later.
  @discardableResult
  private func create(_ number: Int, size: Int) throws(SystemError) -> OwnedFile {
    let file = try OwnedFile(path: path + "/" + Self.name(number), creation: .createIfMissing)
    // The first one is on the disk before a checkpoint names it.
    guard syncsFiles || number == 0 else {
      try file.preallocate(size)
      return file
    }
    let isNamedLate = Mutant.logNamedLate.isActive
    if isNamedLate { try Self.fill(file, size) }
    fault(.logFileCreated)
    try FileSystem.synchronizeDirectory(path)
    if !isNamedLate { try Self.fill(file, size) }
    return file
  }

  private static func fill(_ file: OwnedFile, _ size: Int) throws(SystemError) {
    try file.preallocate(size)
    // One page at a time: Linux would keep more of them as one unit, all of which each record and sync looks at.
    let zeros = [UInt8](repeating: 0, count: 4096)
    for offset in stride(from: 0, to: size, by: zeros.count) {
      try file.write(zeros, at: offset)
    }
    try file.synchronize()
  }

  /// Creates the first segment file of a new generation.
  static func create(in path: String) throws(SystemError) {
    try LogSegments(path: path, storeID: (0, 0)).create(0, size: smallest)
  }

  /// The size of all files in bytes.
  static func size(in path: String) -> Int {
    (0..<fileLimit).reduce(0) { total, number in
      total + (((try? FileSystem.status(of: path + "/" + name(number))) ?? nil)?.size ?? 0)
    }
  }
}
