/* The words of the page in English and Chinese, and the names of gates, which the server sends in
English. */
const KEY = "ingot-language";
export const LANGUAGES = [["en", "English"], ["zh", "中文"]];

const PAIRS = {
  skip: ["Skip to the content", "跳到正文"], language: ["Language", "语言"], pages: ["Pages", "页面"],
  start: ["Start", "开始"], compare: ["Compare", "比较"], help: ["Keyboard shortcuts", "键盘快捷键"],
  close: ["Close", "关闭"], cancel: ["Cancel", "取消"], loading: ["Loading …", "加载中……"],
  busy: ["The last change is still being tried.", "上一个修改还在试运行。"], problem: ["Problem", "出错"],
  no_model: ["no model: rules and commands", "无模型：规则与命令"], more: ["… {n} more", "…… 还有 {n} 字"],
  and_more: ["and {n} more", "还有 {n} 项"], none: ["none", "无"],
  of: ["{from}–{to} of {n}", "第 {from}–{to} 项，共 {n} 项"], earlier: ["Previous", "上一项"],
  later: ["Next", "下一项"], yes: ["yes", "是"], no: ["no", "否"], optional: ["optional", "可选"],
  as_json: ["As JSON", "JSON 形式"], figures: ["Figures", "数字"],
  no_token: ["This page needs its token", "此页面需要令牌"],
  no_token_hint: ["Open the address that the terminal shows. It ends with #token=...",
    "请打开终端显示的地址，它以 #token=... 结尾。"],
  start_title: ["Turn a raw data set into training data", "把原始数据集变成训练数据"],
  start_lead: ["Choose a file or folder. ingot proposes which field is what; you decide.",
    "选择文件或文件夹。ingot 提出每个字段的用途，由您决定。"],
  files: ["Files", "文件"], mode: ["Target", "目标"], "mode auto": ["detect", "自动识别"],
  "mode pt": ["pretraining text", "预训练文本"], "mode sft": ["conversations", "对话"],
  use_source: ["Use as source", "作为数据源"], open_result: ["Open result", "打开结果"],
  open_lake: ["Open lake", "打开数据湖"], up: ["Up", "上级"], empty: ["This folder is empty.", "此文件夹为空。"],
  choose: ["Choose", "选择"], browse: ["Browse", "浏览"], conversations: ["Conversations", "会话"],
  looking_at: ["Reading", "正在读取"], no_conversations: ["No conversation yet.", "还没有会话。"],
  "state open": ["open", "进行中"], "state converted": ["converted", "已转换"],
  "kind folder": ["folder", "文件夹"], "kind file": ["file", "文件"], "kind result": ["result", "结果"],
  "kind lake": ["lake", "数据湖"], "kind mapping": ["mapping", "映射"],
  "kind proposal": ["proposal", "提案"], "node begin": ["Start", "开始"],
  "node discover": ["Detect the format", "识别格式"], "node sample": ["Sample the rows", "抽样"],
  "node propose": ["Propose a mapping", "提出映射"],
  "node validate": ["Try it on the sample", "在样本上试运行"],
  "node compare": ["Compare with the rules", "与规则比较"], "node report": ["Write the report", "写报告"],
  fields: ["Fields", "字段"], filter_fields: ["Filter fields", "筛选字段"], fold: ["Collapse", "折叠"],
  unfold: ["Expand", "展开"], used_as: ["used as {what}", "用作{what}"], use_as: ["Use as", "用作"],
  add_to: ["Add to", "追加到"], add: ["add", "追加"], clear: ["Clear", "清空"], targets: ["Targets", "目标"],
  drop_hint: ["Drag a field here, or use its list.", "把字段拖到这里，或使用字段旁的列表。"],
  in_words: ["Mapping in words", "映射说明"], examples: ["Examples", "示例"],
  example_of: ["{i} of {n}", "第 {i} 个，共 {n} 个"], row: ["Row", "行"], record: ["Record", "记录"],
  records: ["Records", "记录"], rows: ["rows", "行"],
  no_examples: ["No sampled row gives a record.", "样本中没有行产生记录。"],
  no_record: ["This row gives no record.", "这一行没有产生记录。"], by: ["by", "来自"],
  confidence: ["confidence", "置信度"], doubts: ["doubts", "疑点"], sample: ["sample", "样本"], model: ["model", "模型"],
  undo: ["Undo", "撤销"], redo: ["Redo", "重做"], "decision pt": ["pretraining text", "预训练文本"],
  "decision sft": ["conversations", "对话"],
  "decision irrelevant": ["nothing to convert", "没有可转换的内容"],
  "decision unmappable": ["not mappable", "无法映射"], checks: ["Checks", "检查"],
  "gate pass": ["pass", "通过"], "gate warn": ["warning", "警告"], "gate fail": ["fail", "未通过"],
  "gate person": ["needs a person", "需要人工批准"], problems: ["Problems", "问题"],
  passing: ["{n} pass", "{n} 项通过"], person_why: ["Why a person has to approve", "为什么需要人工批准"],
  evidence: ["Why these fields", "选择这些字段的依据"], runner_up: ["instead of", "而不是"],
  speakers: ["Speakers", "说话者"], role: ["Role", "角色"], no_role: ["no role", "无角色"],
  "target user": ["user message", "用户消息"], "target assistant": ["assistant message", "助手消息"],
  "target system": ["system prompt", "系统提示"], "target tool": ["tool message", "工具消息"],
  "target text": ["text", "文本"], conversation: ["Conversation", "会话"],
  line: ["Command or question", "命令或问题"], send: ["Send", "发送"],
  line_commands: ["set user question (Tab completes)", "set user question（Tab 补全）"],
  line_model: ["Say what should change", "说明要改什么"], alternatives: ["Alternatives", "其他方案"],
  take: ["Use this", "采用"], commands: ["Commands", "命令"],
  no_alternatives: ["No other mapping passes on the sample.", "没有其他映射能通过样本。"],
  not_changed: ["Not changed", "未修改"], "who you": ["you", "您"], "who model": ["model", "模型"],
  "who ingot": ["ingot", "ingot"], changed: ["Changed", "已修改"],
  last_change: ["Last change", "上次修改"], difference: ["First difference:", "第一处差异："],
  effect: ["{before} → {after} records, {changed} changed, {lost} lost, {gained} gained",
    "记录 {before} → {after}，改变 {changed}，丢失 {lost}，新增 {gained}"],
  "effect before": ["before", "之前"], "effect after": ["after", "之后"],
  "effect same": ["unchanged", "不变"], "effect changed": ["changed", "改变"],
  "effect lost": ["lost", "丢失"], "effect gained": ["gained", "新增"], approval: ["Approval", "批准"],
  out: ["Output folder", "输出文件夹"], tokenizer: ["Tokenizer", "分词器"],
  approve: ["Approve and convert", "批准并转换"], converting: ["Converting …", "正在转换……"],
  converted: ["converted", "已转换"], lake_set: ["Data set of the lake:", "数据湖中的数据集："],
  "lake approve": ["Approve for the lake", "批准用于数据湖"], "lake reject": ["Reject", "拒绝"],
  "decided approve": ["Approved", "已批准"], "decided reject": ["Rejected", "已拒绝"],
  opening: ["Opening", "正在打开"], back_to_lake: ["Back to the lake", "返回数据湖"],
  from_source: ["from", "来自"], rows_read: ["rows read", "读取的行"], rejected: ["rejected", "被拒绝"],
  filtered: ["filtered", "被过滤"], records_written: ["records written", "写出的记录"],
  lengths: ["Lengths of records", "记录长度"], characters: ["characters", "字符"],
  hidden_here: ["What stands in brackets, such as [email], is hidden on this page only; the records hold it.",
    "方括号中的内容（如 [email]）只在此页面隐藏，记录中仍保留原文。"],
  all_sets: ["All data sets", "所有数据集"], status: ["status", "状态"],
  run_again: ["What was approved is converted when ingot lake run is started again.",
    "再次运行 ingot lake run 时会转换已批准的数据集。"],
  first_record: ["The first record of this row.", "这一行的第一条记录。"],
  lengths_said: ["{n} records, {from} to {to} characters, median {median}",
    "{n} 条记录，{from} 到 {to} 个字符，中位数 {median}"],
  reasons: ["Rows without a record", "没有产生记录的行"], reason: ["reason", "原因"], count: ["count", "数量"],
  rejects: ["Rejected and filtered rows", "被拒绝和被过滤的行"], file: ["file", "文件"], detail: ["detail", "详情"],
  tokens: ["Tokens", "词元"], trained: ["trained on", "参与训练"], untrained: ["not trained on", "不参与训练"],
  trained_on: ["Trained on", "参与训练"], documents: ["Documents", "文档"], document: ["Document", "文档"],
  manifest: ["Manifest", "清单"], bytes: ["bytes", "字节"], lake_of: ["Data sets below", "数据集位于"],
  sets: ["data sets", "数据集"], waiting: ["Waiting for a person", "等待人工决定"],
  nothing_waits: ["No data set waits.", "没有等待的数据集。"], data_set: ["data set", "数据集"],
  why: ["why", "原因"], decision: ["decision", "判断"], coverage: ["coverage", "覆盖率"],
  format: ["format", "格式"], open: ["Open", "打开"], compare_title: ["Compare two mappings", "比较两个映射"],
  compare_lead: ["What a changed mapping means, and what it does to rows.", "映射的修改意味着什么，对各行有什么影响。"],
  old_mapping: ["Old mapping", "旧映射"], new_mapping: ["New mapping", "新映射"],
  verdict: ["Verdict", "结论"], "level pass": ["passes", "通过"], "level warn": ["warns", "警告"],
  "level block": ["blocks", "阻止"], no_change: ["The mappings mean the same.", "两个映射含义相同。"],
  line_no: ["line {n}", "第 {n} 行"], not_replayed: ["Not replayed:", "未重放："],
  replayed: ["Replayed on {n} rows of", "在 {n} 行上重放，来自"],
  identical: ["{same} of {of} records are identical.", "{of} 条记录中有 {same} 条相同。"],
  changes: ["Changes", "修改"], target: ["target", "目标"], before: ["before", "之前"],
  after: ["after", "之后"], class: ["class", "类别"], rule: ["rule", "规则"],
  rows_with_record: ["Rows with a record", "产生记录的行"], left_out: ["Left out:", "未采用："],
  messages_of: ["Messages of", "消息，角色"], drift: ["Changes of the data", "数据的变化"],
  field: ["field", "字段"], what: ["change", "变化"], stops: ["stops a run", "会停止运行"],
  "key ?": ["Show this list", "显示此列表"], "key /": ["Go to the line of the conversation", "跳到会话输入行"],
  "key f": ["Go to the fields", "跳到字段"], "key u": ["Undo", "撤销"], "key r": ["Redo", "重做"],
  "key [": ["Previous example", "上一个示例"], "key ]": ["Next example", "下一个示例"],
  "key Esc": ["Leave an input, close a dialog", "离开输入框，关闭对话框"],
  help_tree: ["In the fields: arrows walk and fold, Enter goes to the list of uses and applies.",
    "在字段中：方向键移动和折叠，Enter 进入用途列表并应用。"],
  done: ["Converted.", "已转换。"], duplicates: ["duplicates", "重复"], ragged: ["ragged rows", "列数不符"],
  cannot_use: ["This field cannot be used here.", "此字段不能用在这里。"],
  on_page: ["This page shows it: fields, checks, examples.", "此页面已显示：字段、检查、示例。"],
  limit: ["limit:", "限制："], mapping_json: ["Mapping as JSON", "映射的 JSON"],
  mapping_and_examples: ["Mapping and examples", "映射与示例"],
  data_optional: ["Data (optional)", "数据（可选）"], "target messages": ["list of messages", "消息列表"],
  "target each": ["one record for each", "每个元素一条记录"], "target group": ["group rows by", "按字段分组"],
  "target role": ["role", "角色"], "target where": ["condition", "条件"],
  "target meta.source": ["source", "来源"], "target meta.language": ["language", "语言"],
  "target meta.timestamp": ["timestamp", "时间"], "target meta.token_count": ["token count", "词元数"],
  "target meta.quality_score": ["quality score", "质量分"],
  "target meta.original_id": ["original id", "原始编号"], "node review": ["Prepare the review", "准备审阅"],
};

const GATES = {
  confidence: "置信度", coverage: "覆盖率", records: "记录", filtered: "被过滤", "empty text": "空文本",
  "no prompt": "没有提问", "no assistant": "没有回答", "unreadable rows": "无法读取的行", paths: "路径",
  "unmapped role values": "未映射的角色", "unmapped values": "未映射的值", texts: "文本",
  "paths on both sides": "两侧使用同一路径", "trained on": "参与训练", "most frequent prompt": "最常见的提问",
  "most frequent answer": "最常见的回答", "most frequent text": "最常见的文本",
  "lists of numbers as prompts": "提问是数字列表", "lists of numbers as answers": "回答是数字列表",
  "lists of numbers as text": "文本是数字列表", "shape of the data": "数据的结构",
  "text in the records": "记录中的文本", "files without a record": "没有产生记录的文件",
  "texts without words": "没有词语的文本", "conversations in one text": "一段文本中的整个对话",
  "HTML in texts": "文本中的 HTML", "files inside texts": "文本中的内嵌文件",
  "large files inside texts": "文本中的大型内嵌文件",
  "unparsed timestamps": "无法解析的时间", "unread formats": "未读取的格式", "files of another shape": "结构不同的文件",
  "kinds of text": "文本的种类", "kinds of rows": "行的种类", "files in step": "逐行对应的文件",
  "lists of rows": "未读取的行列表", "parts passed over": "未采用的部分", "gates on all rows": "所有行的检查",
  "metadata of its own": "数据中没有的元数据", "thoughts without a mark": "没有标记的思考过程",
  "images, audio, video": "图像、音频、视频", "constant ids, times and counts": "固定的编号、时间和计数",
  "literal source and language": "固定的来源和语言", "system text": "系统文本", "fixed text": "固定文本",
  "literal source": "固定的来源", "roles against their names": "角色与名称不符",
  "loss masks against roles": "损失掩码与角色不符", "records left out": "未采用的记录",
  "messages left out": "未采用的消息", "constant text": "固定不变的文本", "constant answers": "固定不变的回答",
  "literal language": "固定的语言", "texts from outside": "来自记录之外的文本",
  "texts in most records": "多数记录中重复的文本", "rows left out": "未采用的行", "texts left out": "未采用的文本",
  "texts taken twice": "重复采用的文本", "objects as text": "作为文本的对象", "groups without order": "没有顺序的分组",
  "sides without evidence": "缺少依据的两侧", "one of two answers": "两个回答之一",
  "what is trained on": "参与训练的内容", "system texts by their names": "系统文本的名称",
  "sides by their names": "两侧的名称", "reading of the files": "文件的读取方式", "second opinion": "第二意见",
};

/* Two dictionaries with equal keys. */
export const WORDS = Object.fromEntries(LANGUAGES.map(([code], place) =>
  [code, Object.fromEntries(Object.entries(PAIRS).map(([key, pair]) => [key, pair[place]]))]));

let chosen = localStorage.getItem(KEY);

export function language() {
  const known = LANGUAGES.some(([code]) => code === chosen);
  return known ? chosen : /^zh\b/i.test(navigator.language) ? "zh" : "en";
}

export function chooseLanguage(code) {
  chosen = code;
  localStorage.setItem(KEY, code);
}

/* The words of a key, with its {places} filled; `otherwise` where there is no such key. */
export function t(key, values = {}, otherwise = key) {
  const words = WORDS[language()];
  if (!Object.hasOwn(words, key)) return otherwise;
  return words[key].replace(/\{(\w+)\}/g, (_, place) => String(values[place]));
}

export function gateName(name) {
  return language() === "zh" && Object.hasOwn(GATES, name) ? GATES[name] : name;
}
