// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A file as PersistentCacheKit leaves it: made by SQLite 3.40 in pages of 512 bytes, with values that
/// Foundation's encoder wrote. In it are
///
/// * `messages` + a UUID, three times: the second is long, and expires in 2096; the third has expired;
/// * `numbers0` to `numbers7`: thousands;
/// * `text`, `name`, `Float`, `list`, `when`;
/// * `gone`, a removed value, and `odd`, three bytes that are not an item.
enum CacheKitFile {
  static var bytes: [UInt8] {
    Array(Data(base64Encoded: base64, options: .ignoreUnknownCharacters)!)
  }

  private static let base64 = """
    U1FMaXRlIGZvcm1hdCAzAAIAAQEAQCAgAAAAAgAAAAsAAAAAAAAAAAAAAAEAAAAEAAAAAAAAAAAAAAABAAAAAAAAAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACAC5jAQ0B+AACATwAATwBvQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAH8BBxcnJwGBPXRhYmxlY2FjaGVfc3RvcmFnZWNhY2hlX3N0b3JhZ2UCQ1JF
    QVRFIFRBQkxFIGNhY2hlX3N0b3JhZ2UgKGtleSBURVhUIFBSSU1BUlkgS0VZIE5PVCBOVUxMLCBkYXRhIEJMT0IsIGNyZWF0
    ZWRBdCBJTlRFR0VSKTkCBhdNJwEAaW5kZXhzcWxpdGVfYXV0b2luZGV4X2NhY2hlX3N0b3JhZ2VfMWNhY2hlX3N0b3JhZ2UD
    AAAACAAAAAAFAAAABAHsAAAAAAsB+wH2AfEB7AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAK
    CwAAAAkFAAAACAIAAAAHAQoAAAASAMcAAOoAzwDhAdABnwFuAPQBYQFUAUcBOgEtASABEwEGAMcA/QDYAAAAAAAAAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAH
    AxMBb2RkEggDFQFnb25lEQgDFQF3aGVuEAgDFQFsaXN0DwkDFwFGbG9hdA4IAxUBbmFtZQ0IAxUBdGV4dAwMAx0BbnVtYmVy
    czcLDAMdAW51bWJlcnM2CgwDHQFudW1iZXJzNQkMAx0BbnVtYmVyczQIDAMdAW51bWJlcnMzBwwDHQFudW1iZXJzMgYMAx0B
    bnVtYmVyczEFDAMdAW51bWJlcnMwBDADZQFtZXNzYWdlczAwMDAwMDAwLTAwMDAtMDAwMC0wMDAwLTAwMDAwMDAwMDAwMwMw
    A2UBbWVzc2FnZXMwMDAwMDAwMC0wMDAwLTAwMDAtMDAwMC0wMDAwMDAwMDAwMDICLwNlCW1lc3NhZ2VzMDAwMDAwMDAtMDAw
    MC0wMDAwLTAwMDAtMDAwMDAwMDAwMDAxAAAABWcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxv
    bmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25n
    IGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBs
    b25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9u
    ZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcg
    bG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxv
    bmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25n
    IGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGwAAAAGb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxv
    bmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25n
    IGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBs
    b25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9u
    ZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcg
    bG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxv
    bmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25n
    IGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZwAAAAAgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxv
    bmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25n
    IGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBs
    b25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9u
    ZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcg
    bG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgM0HE3JOBIAAAE//////////+Ij3MzM0jP7mZmZmZmZpDAQICCRQAAAAA
    AAAAAEAAAAAAAAAAohkaUWFkAOQgrNg93gAACAANABgAHgAnADwAQQBGAEkATwBVAFsAYABnAGwAdAB4BlgGYQZqBm8GeAZ8
    Bn0GjgaRBpMAAAAAAAACAQAAAAAAAAAbAAAAAAAAAAAAAAAAAAAGnEHX14QAYAAADQAAAAEA4QAA4QAAAAAAAAAAAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAghwBBWWDUgdtZXNzYWdl
    czAwMDAwMDAwLTAwMDAtMDAwMC0wMDAwLTAwMDAwMDAwMDAwMWJwbGlzdDAw0QECVXZhbHVl2gMEBQYHCAkKCwwNDg8QERIT
    FBUWVGZyb21UdGV4dFJhdFVsaWtlc1VzY29yZVVyYXRpb1RkYXRhVmlzUmVhZFRodWdlV3JlcGxpZXNTQWRhU29uZTNBxNyT
    gKAAABP//////////yI9zMzNIz+5mZmZmZmaQwECAQkUAAAAAAAAAABAAAAAAAAAAKIXGFFhZADkIKzYPd4ACAsRJiswMzk/
    RUpRVl5iZm94fYaKi5yfoQAAAAAAAAEBAAAAAAAAABkAAAAAAAAAAAAAAAAAAACqQdfXhAAgAAANAAAAAQDCAADCAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAI4rAgVlm3AHbWVzc2FnZXMwMDAwMDAwMC0wMDAwLTAwMDAtMDAw
    MC0wMDAwMDAwMDAwMDJicGxpc3QwMNIBAgMEWmV4cGlyYXRpb25VdmFsdWUzQeaDa/AQAADaBQYHCAkKCwwNDg8QERITFBUW
    FxhUZnJvbVR0ZXh0UmF0VWxpa2VzVXNjb3JlVXJhdGlvVGRhdGFWaXNSZWFkVGh1Z2VXcmVwbGllc1NBZGFfEQXcbG9uZyBs
    b25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9u
    ZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uZyBsb25nIGxvbmcgbG9uAAAABA0AAAADACwA
    AMUAeQAsAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAASwUEHXoHbnVtYmVyczFicGxpc3QwMNEBAlV2YWx1ZRED6AgL
    EQAAAAAAAAEBAAAAAAAAAAMAAAAAAAAAAAAAAAAAAAAUQdfXhAEgAABKBAQdeAdudW1iZXJzMGJwbGlzdDAw0QECVXZhbHVl
    EAAICxEAAAAAAAABAQAAAAAAAAADAAAAAAAAAAAAAAAAAAAAE0HX14QA4AAAgjgDBWWECgdtZXNzYWdlczAwMDAwMDAwLTAw
    MDAtMDAwMC0wMDAwLTAwMDAwMDAwMDAwM2JwbGlzdDAw0gECAwRaZXhwaXJhdGlvblV2YWx1ZTNBdLAYAAAAANoFBgcICQoL
    DA0ODxAREhMUFRYXGFRmcm9tVHRleHRSYXRVbGlrZXNVc2NvcmVVcmF0aW9UZGF0YVZpc1JlYWRUaHVnZVdyZXBsaWVzU0Fk
    YVdleHBpcmVkM0HE3JOBoAAAE//////////9Ij3MzM0jP7mZmZmZmZpDAQIDCRQAAAAAAAAAAEAAAAAAAAAAohkaUWFkAOQg
    rNg93gAIDRgeJzxBRklPVVtgZ2x0eICJkpegpKW2ubsAAAAAAAABAQAAAAAAAAAbAAAAAAAAAAAAAAAAAAAAxEHX14QAoAAA
    DQAAAAYAMgABswFmARkAzAB/ADIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABLCwQdegdudW1iZXJzN2JwbGlzdDAw
    0QECVXZhbHVlERtYCAsRAAAAAAAAAQEAAAAAAAAAAwAAAAAAAAAAAAAAAAAAABRB19eEAqAAAEsKBB16B251bWJlcnM2YnBs
    aXN0MDDRAQJVdmFsdWURF3AICxEAAAAAAAABAQAAAAAAAAADAAAAAAAAAAAAAAAAAAAAFEHX14QCYAAASwkEHXoHbnVtYmVy
    czVicGxpc3QwMNEBAlV2YWx1ZRETiAgLEQAAAAAAAAEBAAAAAAAAAAMAAAAAAAAAAAAAAAAAAAAUQdfXhAIgAABLCAQdegdu
    dW1iZXJzNGJwbGlzdDAw0QECVXZhbHVlEQ+gCAsRAAAAAAAAAQEAAAAAAAAAAwAAAAAAAAAAAAAAAAAAABRB19eEAeAAAEsH
    BB16B251bWJlcnMzYnBsaXN0MDDRAQJVdmFsdWURC7gICxEAAAAAAAABAQAAAAAAAAADAAAAAAAAAAAAAAAAAAAAFEHX14QB
    oAAASwYEHXoHbnVtYmVyczJicGxpc3QwMNEBAlV2YWx1ZREH0AgLEQAAAAAAAAEBAAAAAAAAAAMAAAAAAAAAAAAAAAAAAAAU
    QdfXhAFgAAANAAAABwA6AAGuAVwBEADAAFgASgA6AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADhIEExIE
    b2RkAQIDX14QAAwRBBUABGdvbmVfXhAAZhAFFYE2B3doZW5icGxpc3QwMNIBAgMEWmV4cGlyYXRpb25VdmFsdWUzQeaDa/AQ
    AAAzQBYAAAAAAAAIDRgeJwAAAAAAAAEBAAAAAAAAAAUAAAAAAAAAAAAAAAAAAAAwQdfXhAPgAABODwUVgQYHbGlzdGJwbGlz
    dDAw0QECVXZhbHVlogMEUWFRYggLERQWAAAAAAAAAQEAAAAAAAAABQAAAAAAAAAAAAAAAAAAABhB19eEA6AAAEoOBBd+B0Zs
    b2F0YnBsaXN0MDDRAQJVdmFsdWUiPczMzQgLEQAAAAAAAAEBAAAAAAAAAAMAAAAAAAAAAAAAAAAAAAAWQdfXhANgAABQDQUV
    gQoHbmFtZWJwbGlzdDAw0QECVXZhbHVlZQBHAHIA/ADfAGUICxEAAAAAAAABAQAAAAAAAAADAAAAAAAAAAAAAAAAAAAAHEHX
    14QDIAAAUAwFFYEKB3RleHRicGxpc3QwMNEBAlV2YWx1ZVpwbGFpbiB0ZXh0CAsRAAAAAAAAAQEAAAAAAAAAAwAAAAAAAAAA
    AAAAAAAAABxB19eEAuAAAA==
    """
}

// MARK: Files with other items

extension CacheKitFile {
  /// A file with one row for each item, in pages of 64 KiB. Data that does not fit into the table's
  /// one leaf is stored in overflow pages.
  static func file(of items: [(key: String, value: String)]) throws -> [UInt8] {
    let pageSize = 65_536
    let table = "cache_storage"
    let sql = "CREATE TABLE \(table) (key TEXT PRIMARY KEY NOT NULL, data BLOB, createdAt INTEGER)"
    let schema: [[UInt8]] = ["table", table, table].map { Array($0.utf8) }
    var first = Array("SQLite format 3\0".utf8)
    // 1 means 65,536.
    first += [0, 1, 1, 1, 0, 64, 32, 32] + [UInt8](repeating: 0, count: 20)
    first += [0, 0, 0, 1, 0, 0, 0, 4] + [UInt8](repeating: 0, count: 8) + [0, 0, 0, 1]
    first += [UInt8](repeating: 0, count: 100 - first.count)
    var overflow: [[UInt8]] = []
    let schemaTypes = schema.map { 2 * $0.count + 13 } + [1, 2 * sql.utf8.count + 13]
    let schemaRow = record(schemaTypes, schema.flatMap { $0 } + [2] + sql.utf8)
    let rows = try items.map { item in
      let data = try PropertyListSerialization.data(
        fromPropertyList: ["value": item.value], format: .binary, options: 0)
      return record(
        [2 * item.key.utf8.count + 13, 2 * data.count + 12, 1], item.key.utf8 + data + [0])
    }
    let pages = [
      leaf([schemaRow], after: first, pageSize, &overflow),
      leaf(rows, after: [], pageSize, &overflow),
    ]
    return pages.flatMap { $0 } + overflow.flatMap { $0 }
  }

  private static func varint(_ number: Int) -> [UInt8] {
    var bytes = [UInt8(number & 127)]
    var rest = number >> 7
    while rest > 0 {
      bytes.insert(UInt8(rest & 127) | 128, at: 0)
      rest >>= 7
    }
    return bytes
  }

  private static func bigEndian(_ number: Int, _ width: Int) -> [UInt8] {
    (0..<width).reversed().map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
  }

  private static func record(_ types: [Int], _ content: some Sequence<UInt8>) -> [UInt8] {
    let header = types.flatMap(varint)
    return varint(header.count + 1) + header + content
  }

  /// A leaf of a table, with rows numbered from 1. Pages of its overflow follow the two leaves.
  private static func leaf(
    _ rows: [[UInt8]], after start: [UInt8], _ size: Int, _ overflow: inout [[UInt8]]
  ) -> [UInt8] {
    var page = start + [0x0D, 0, 0] + bigEndian(rows.count, 2)
    var cells: [UInt8] = []
    var pointers: [UInt8] = []
    for (index, row) in rows.enumerated() {
      var cell = varint(row.count) + varint(index + 1)
      if row.count <= size - 35 {
        cell += row
      } else {
        let least = (size - 12) * 32 / 255 - 23
        var local = least + (row.count - least) % (size - 4)
        if local > size - 35 { local = least }
        cell += row[..<local] + bigEndian(overflow.count + 3, 4)
        var position = local
        while position < row.count {
          let end = min(position + size - 4, row.count)
          let next = end < row.count ? overflow.count + 4 : 0
          let piece = bigEndian(next, 4) + row[position..<end]
          overflow.append(piece + [UInt8](repeating: 0, count: size - piece.count))
          position = end
        }
      }
      cells = cell + cells
      pointers += bigEndian(size - cells.count, 2)
    }
    page += bigEndian(size - cells.count, 2) + [0] + pointers
    return page + [UInt8](repeating: 0, count: size - page.count - cells.count) + cells
  }
}
