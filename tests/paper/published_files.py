"""Small files in the published formats of the data sets, with simulated students."""

import random
from pathlib import Path

AS09 = (
    "order_id,assignment_id,user_id,assistment_id,problem_id,original,correct,attempt_count,ms_first_response,"
    "tutor_mode,answer_type,sequence_id,student_class_id,position,type,base_sequence_id,skill_id,skill_name,"
    "teacher_id,school_id,hint_count,hint_total,overlap_time,template_id,answer_id,answer_text,first_action,"
    "bottom_hint,opportunity,opportunity_original"
)
AS17 = (
    "studentId,MiddleSchoolId,InferredGender,SY ASSISTments Usage,AveKnow,AveCarelessness,AveCorrect,"
    "NumActions,AveResBored,AveResEngcon,AveResConf,AveResFrust,AveResOfftask,AveResGaming,action_num,"
    "skill,problemId,problemType,assignmentId,assistmentId,startTime,endTime,timeTaken,correct,original,"
    "hint,hintCount,hintTotal,scaffold,bottomHint,attemptCount,frIsHelpRequest,frPast5HelpRequest,"
    "frPast8HelpRequest,stlHintUsed,past8BottomOut,totalFrPercentPastWrong,totalFrPastWrongCount,"
    "frPast5WrongCount,frPast8WrongCount,totalFrTimeOnSkill,timeSinceSkill,frWorkingInSchool,"
    "totalFrAttempted,totalFrSkillOpportunities,responseIsFillIn,responseIsChosen,endsWithScaffolding,"
    "endsWithAutoScaffolding,frTimeTakenOnScaffolding,frTotalSkillOpportunitiesScaffolding,"
    "totalFrSkillOpportunitiesByScaffolding,frIsHelpRequestScaffolding,timeGreater5Secprev2wrong,"
    "sumRight,helpAccessUnder2Sec,timeGreater10SecAndNextActionRight,consecutiveErrorsInRow,"
    "sumTime3SDWhen3RowRight,sumTimePerSkill,totalTimeByPercentCorrectForskill,Prev5count,timeOver80,"
    "manywrong,confidence(BORED),confidence(CONCENTRATING),confidence(CONFUSED),confidence(FRUSTRATED),"
    "confidence(OFF TASK),confidence(GAMING),RES_BORED,RES_CONCENTRATING,RES_CONFUSED,RES_FRUSTRATED,"
    "RES_OFFTASK,RES_GAMING,Ln-1,Ln,MCAS,Enrolled,Selective,isSTEM"
)
KDD = (
    "Row\tAnon Student Id\tProblem Hierarchy\tProblem Name\tProblem View\tStep Name\tStep Start Time\t"
    "First Transaction Time\tCorrect Transaction Time\tStep End Time\tStep Duration (sec)\t"
    "Correct Step Duration (sec)\tError Step Duration (sec)\tCorrect First Attempt\tIncorrects\tHints\t"
    "Corrects"
)


def assistments2009(path: Path, rows: list[tuple[object, ...]]) -> Path:
    """Rows of (order, student, problem, correct, skill)."""
    lines = [
        f"{order},277618,{user},33139,{problem},1,{correct},1,32454,tutor,algebra,5948,13241,126,MasterySection,5948,"
        f'{skill},"Box, Whisker é",22763,73,0,3,32454,30799,,"26, 27",0,,1,1'
        for order, user, problem, correct, skill in rows
    ]
    path.write_text("\n".join([AS09, *lines]) + "\n", encoding="latin1")
    return path


def assistments2017(path: Path, rows: list[tuple[object, ...]], action: str = "action_num") -> Path:
    """Rows of (action, student, problem, start in seconds, correct, skill); ``action`` is a column's name."""
    names = AS17.split(",")
    lines = []
    for number, user, problem, start, correct, skill in rows:
        known = {"studentId": user, "MiddleSchoolId": 2, "InferredGender": "Male", "action_num": number,
                 "SY ASSISTments Usage": "2004-2005", "skill": skill, "problemId": problem,
                 "problemType": "textfieldquestion", "startTime": start, "timeTaken": "49.0",
                 "correct": correct, "original": 1}  # fmt: skip
        lines.append(",".join(str(known.get(name, 0)) for name in names))
    header = AS17.replace("action_num", action)
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def algebra(path: Path, rows: list[tuple[object, ...]], kc: tuple[str, ...] = ("Default",)) -> Path:
    """Rows of (row, student, problem, view, step, timestamp, correct, skills)."""
    header = KDD + "".join(f"\tKC({name})\tOpportunity({name})" for name in kc)
    lines = [
        f"{row}\t{user}\tUnit ES_04, Section ES_04-1\t{problem}\t{view}\t{step}\t"
        f"{timestamp}\t{timestamp}\t{timestamp}\t{timestamp}\t3\t3\t\t{correct}\t0\t0\t1"
        + f"\t{skills}\t1"
        * len(kc)
        for row, user, problem, view, step, timestamp, correct, skills in rows
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def eedi(root: Path, rows: list[tuple[object, ...]], subjects: dict[int, str]) -> Path:
    """Rows of (answer, student, question, correct, date or None)."""
    for name in ("train_data", "metadata"):
        (root / name).mkdir(parents=True, exist_ok=True)
    answers = [f"{question},{user},{answer},{correct},2,2" for answer, user, question, correct, _ in rows]
    (root / "train_data" / "train_task_1_2.csv").write_text(
        "\n".join(["QuestionId,UserId,AnswerId,IsCorrect,CorrectAnswer,AnswerValue", *answers]) + "\n"
    )
    dates = [f"{answer}.0,{date},,1,2,52562.0" for answer, _, _, _, date in rows if date is not None]
    (root / "metadata" / "answer_metadata_task_1_2.csv").write_text(
        "\n".join(
            [
                "AnswerId,DateAnswered,Confidence,GroupId,QuizId,SchemeOfWorkId",
                *dates,
                ",2020-01-01 00:00:00.000,,1,2,",
            ]
        )
        + "\n"
    )
    questions = [f'{question},"{listed}"' for question, listed in subjects.items()]
    (root / "metadata" / "question_metadata_task_1_2.csv").write_text(
        "\n".join(["QuestionId,SubjectId", *questions]) + "\n"
    )
    return root


def classroom(
    students: int = 12, answers: int = 20, problems: int = 8, seed: int = 1
) -> list[tuple[int, int, int, int]]:
    """(n, student, problem, correct) in time order, students alternating."""
    draw = random.Random(seed)
    rows = []
    for n in range(students * answers):
        problem = draw.randrange(problems)
        rows.append((n, n % students, problem, int(draw.random() < 0.3 + 0.05 * problem)))
    return rows
